-- Acquires or extends the reaper's lease; the proxy that has it reaps for all.
-- KEYS: lease
-- ARGV: holder milliseconds
-- RESULT: -1 acquired, else for how many more milliseconds another proxy has it
-- The value is `holder:milliseconds`. A lease with more time left than that was written before the server's clock was
-- set back, and counts as ended. So does one without expiry, or a key of another type, because clients may write to it.
local function left_to_another()
  local present = redis.pcall('GET', lease)
  if type(present) ~= 'string' then
    return -1
  end
  local owner, lasts = string.match(present, '^(.*):(%d+)$')
  if owner == holder then
    return -1
  end
  local left = redis.call('PTTL', lease)
  return (not owner or left <= tonumber(lasts)) and left or -1
end

local left = left_to_another()
if left >= 0 then
  return left
end
-- Removes nothing; after this first write, a full server refuses no command of the script.
redis.call('DEL', prefix .. const.NONE .. slot_tag)
redis.call('SET', lease, holder .. ':' .. milliseconds, 'PX', milliseconds)
return -1
