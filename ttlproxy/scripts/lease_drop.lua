-- Releases the reaper's lease.
-- KEYS: lease
-- ARGV: holder
-- RESULT: 1 released, 0 another proxy has it, or nobody
local present = redis.call('GET', lease)
if present and string.find(present, holder .. ':', 1, true) == 1 then
  return redis.call('DEL', lease)
end
return 0
