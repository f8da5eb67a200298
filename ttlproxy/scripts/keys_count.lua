-- DBSIZE without internal keys.
-- READS
-- KEYS: fixed...
-- ARGV:
-- The first of the keys is the schedule, the last the set of others.
-- RESULT: the command's
-- include index
-- Before DBSIZE: EXISTS removes a lease that has expired, which DBSIZE would count.
local present = redis.call('EXISTS', unpack(KEYS))
local size = redis.pcall('DBSIZE')
if type(size) == 'table' then
  return size
end
-- Something else may stand in the place of the others.
local others = tonumber(redis.pcall('SCARD', KEYS[#KEYS])) or 0
return size - present - index_count(KEYS[first_fixed]) - others
