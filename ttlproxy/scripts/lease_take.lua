-- Takes or keeps the lease of the reaper; whoever holds it reaps for all proxies.
-- KEYS: lease
-- ARGV: holder milliseconds
-- RESULT: 1 held, 0 somebody else holds it
-- The value is `holder:milliseconds`, and the key lives no longer than it says there: one that would
-- was written before the server's clock was set back, and counts as ended. So does one that never ends, or
-- is of another type: clients may write there.
local function is_held_by_another()
  local present = redis.pcall('GET', lease)
  if type(present) ~= 'string' then
    return false
  end
  local owner, lasts = string.match(present, '^(.*):(%d+)$')
  if owner == holder then
    return false
  end
  local left = redis.call('PTTL', lease)
  return left >= 0 and (not owner or left <= tonumber(lasts))
end

if is_held_by_another() then
  return 0
end
-- Removes nothing, but a full server lets a script write that has written.
redis.call('DEL', prefix .. 'none:')
redis.call('SET', lease, holder .. ':' .. milliseconds, 'PX', milliseconds)
return 1
