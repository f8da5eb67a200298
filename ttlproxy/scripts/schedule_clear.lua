-- Removes what stands in the place of the schedule and is no sorted set.
-- KEYS: schedule
-- ARGV:
-- RESULT: 1 removed, 0 it is one, or there is nothing
local kind = redis.call('TYPE', schedule).ok
if kind == 'none' or kind == 'zset' then
  return 0
end
return redis.call('DEL', schedule)
