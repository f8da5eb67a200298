-- Takes or keeps the lease of the reaper; whoever holds it reaps for all proxies.
-- KEYS: lease layout
-- ARGV: holder milliseconds version
-- RESULT: 1 held, 0 somebody else holds it
local present = redis.call('GET', lease)
if present and present ~= holder then
  return 0
end
-- Removes nothing, but a full server lets a script write that has written.
redis.call('DEL', prefix .. '!')
redis.call('SET', layout, version, 'NX')
redis.call('SET', lease, holder, 'PX', milliseconds)
return 1
