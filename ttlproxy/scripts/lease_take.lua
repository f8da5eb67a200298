-- Takes or keeps the lease of the reaper; whoever holds it reaps for all proxies.
-- KEYS: lease layout
-- ARGV: holder milliseconds version
-- RESULT: 1 held, 0 somebody else holds it
-- The value is `holder:milliseconds`, and the key lives no longer than it says there: one that would
-- was written before the server's clock was set back, and counts as ended.
local function is_held_by_another()
  local present = redis.call('GET', lease)
  if not present then
    return false
  end
  local owner, lasts = string.match(present, '^(.*):(%d+)$')
  if not owner or owner == holder then
    return not owner
  end
  local left = redis.call('PTTL', lease)
  return left >= 0 and left <= tonumber(lasts)
end

if is_held_by_another() then
  return 0
end
-- Removes nothing, but a full server lets a script write that has written.
redis.call('DEL', prefix .. '!')
redis.call('SET', layout, version, 'NX')
redis.call('SET', lease, holder .. ':' .. milliseconds, 'PX', milliseconds)
return 1
