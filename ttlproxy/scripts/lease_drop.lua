-- Gives the lease of the reaper back.
-- KEYS: lease
-- ARGV: holder
-- RESULT: 1 given back, 0 it was somebody else's
if redis.call('GET', lease) == holder then
  return redis.call('DEL', lease)
end
return 0
