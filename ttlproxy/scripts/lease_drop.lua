-- Gives the reaper's lease back.
-- KEYS: lease
-- ARGV: holder
-- RESULT: 1 given back, 0 it was somebody else's
local present = redis.call('GET', lease)
if present and string.find(present, holder .. ':', 1, true) == 1 then
  return redis.call('DEL', lease)
end
return 0
