-- DBSIZE without internal keys.
-- READS
-- KEYS: fixed...
-- ARGV:
-- The first of the keys is the schedule, the last the set of others.
-- RESULT: the command's
-- include index
local schedule, others = KEYS[first_fixed], KEYS[#KEYS]
local hidden = redis.call('EXISTS', unpack(KEYS)) + index_count(schedule)
-- Something else may stand in the place of the others.
hidden = hidden + (tonumber(redis.pcall('SCARD', others)) or 0)
-- Behind EXISTS, which removes a lease that has expired: DBSIZE would count it.
local size = redis.pcall('DBSIZE')
return type(size) == 'table' and size or size - hidden
