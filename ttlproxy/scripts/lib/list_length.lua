-- `length`: how long the list is. WRONGTYPE comes before every other error.
local length = redis.pcall('LLEN', data)
if type(length) == 'table' then
  return length
end
