-- `length`: how long the list is. WRONGTYPE comes before every other error.
-- NEEDS: data
-- GIVES: length
local length = redis.pcall('LLEN', data)
if type(length) == 'table' then
  return length
end
