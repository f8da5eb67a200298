-- `length`: of the list. WRONGTYPE comes before every other error.
local length = redis.pcall('LLEN', data)
if type(length) == 'table' then
  return length
end
