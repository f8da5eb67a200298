-- WRONGTYPE comes before every other error.
-- NEEDS: has
local seen = has('')
if type(seen) == 'table' then
  return seen
end
