-- Takes or keeps the reaper's lease; the proxy that holds it reaps for all.
-- KEYS: lease
-- ARGV: holder milliseconds
-- RESULT: 1 held, 0 somebody else holds it
-- The value is `holder:milliseconds`. A lease with more time left than that was written before the
-- server's clock was set back, and counts as ended. So does one without expiry or of another type, because
-- clients may write there.
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
-- Removes nothing; after this first write, a full server refuses the script nothing.
redis.call('DEL', prefix .. const.NONE .. slot_tag)
redis.call('SET', lease, holder .. ':' .. milliseconds, 'PX', milliseconds)
return 1
