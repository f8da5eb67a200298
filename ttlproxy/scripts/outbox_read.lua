-- The first entries of an outbox: see lib/outbox.lua.
-- READS
-- KEYS: data
-- ARGV: count bytes
-- RESULT: [number of entries in all, entry...]; fewer than `count` if these have `bytes` bytes or more together
local found, left, at = { redis.call('LLEN', data) }, tonumber(bytes), 0
while at < tonumber(count) and left > 0 do
  local entry = redis.call('LINDEX', data, at)
  if not entry then
    break
  end
  at, left = at + 1, left - #entry
  found[at + 1] = entry
end
return found
