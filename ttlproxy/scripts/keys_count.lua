-- DBSIZE without internal keys.
-- KEYS: schedule keeping later_keys fixed...
-- ARGV:
-- RESULT: the command's
-- include index
-- Asked for first: EXISTS removes a lease that is past its time, which DBSIZE would count.
local present = redis.call('EXISTS', schedule, unpack(KEYS, first_fixed))
local size = redis.pcall('DBSIZE')
if type(size) == 'table' then
  return size
end
-- For each key of which elements are kept there is a list of them, and a hash of what is deferred.
local others = redis.call('SCARD', keeping) + redis.call('SCARD', later_keys)
return size - index_count(schedule) - present - others
