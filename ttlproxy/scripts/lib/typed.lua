-- WRONGTYPE comes before every other error.
local seen = has('')
if type(seen) == 'table' then
  return seen
end
