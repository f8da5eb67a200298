-- DBSIZE without internal keys.
-- KEYS: schedule fixed...
-- ARGV:
-- RESULT: the command's
-- include index
-- Asked for first: EXISTS removes a lease that is past its time, which DBSIZE would count.
local present = redis.call('EXISTS', unpack(KEYS))
local size = redis.pcall('DBSIZE')
if type(size) == 'table' then
  return size
end
return size - index_count(schedule) - present
