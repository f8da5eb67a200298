-- Returns WRONGTYPE before any other error.
-- NEEDS: has
local seen = has('')
if type(seen) == 'table' then
  return seen
end
