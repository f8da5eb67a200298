-- `length`: the number of entries of the list. Returns WRONGTYPE before any other error.
-- NEEDS: data
-- GIVES: length
local length = redis.pcall('LLEN', data)
if type(length) == 'table' then
  return length
end
