-- DBSIZE without internal keys.
-- READS
-- KEYS: fixed...
-- ARGV:
-- The first of the keys is the schedule, the last the set of others.
-- RESULT: the command's
-- Before DBSIZE: EXISTS removes a lease that has expired, which DBSIZE would count.
local present = redis.call('EXISTS', unpack(KEYS))
local size = redis.pcall('DBSIZE')
if type(size) == 'table' then
  return size
end
-- Something else may stand in the place of one of these keys.
local function count(command, name)
  return tonumber(redis.pcall(command, name)) or 0
end

return size - present - count('ZCARD', KEYS[first_fixed]) - count('SCARD', KEYS[#KEYS])
