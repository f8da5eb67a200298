-- Returns a page of the index without entries whose element does not exist: after an element is popped or removed, its
-- entry stays for a moment.
-- NEEDS: finders.lua list.lua data
-- GIVES: there
local function there(page)
  local kind, elements, found = redis.call('TYPE', data).ok, {}, {}
  for at = 1, #page, 2 do
    elements[#elements + 1] = page[at]
  end
  if kind == 'list' then
    look_for(elements, 1)
  end
  for at, element in ipairs(finders[kind] and elements or {}) do
    if exists(kind, element) then
      found[#found + 1] = element
      found[#found + 1] = page[2 * at]
    end
  end
  return found
end
