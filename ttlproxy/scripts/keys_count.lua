-- DBSIZE without internal keys.
-- KEYS: schedule fixed...
-- ARGV:
-- RESULT: the command's
-- include index
local size = redis.pcall('DBSIZE')
if type(size) == 'table' then
  return size
end
return size - index_count(schedule) - redis.call('EXISTS', unpack(KEYS))
