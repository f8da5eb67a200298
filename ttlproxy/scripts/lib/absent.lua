-- Returns those of `elements`, from number `first` on, that do not exist.
-- NEEDS: has
-- GIVES: absent
local function absent(elements, first)
  local found = {}
  for i = first, #elements do
    if has(elements[i]) == 0 then
      found[#found + 1] = elements[i]
    end
  end
  return found
end
