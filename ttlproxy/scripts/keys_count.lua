-- DBSIZE without internal keys.
-- READS
-- KEYS: fixed...
-- ARGV:
-- The first of the keys is the schedule, the last the set of others.
-- RESULT: the reply of the command
-- include index
local schedule, others = KEYS[first_fixed], KEYS[#KEYS]
local hidden = redis.call('EXISTS', unpack(KEYS)) + index_count(schedule)
-- A key of another type may be in the place of the set.
hidden = hidden + (tonumber(redis.pcall('SCARD', others)) or 0)
-- After EXISTS, which deletes a lease that has expired: DBSIZE would count it.
local size = redis.pcall('DBSIZE')
return type(size) == 'table' and size or size - hidden
