-- Whether an element of a key of any type exists. `finders` has the types with elements.
-- NEEDS: list.lua data
-- GIVES: finders exists
local finders = const.FINDERS

local function exists(kind, element)
  if kind == 'list' then
    return has(element) ~= 0
  end
  local found = redis.call(finders[kind], data, element)
  return found and found ~= 0
end
