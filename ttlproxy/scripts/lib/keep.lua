-- Call it before a write that changes or makes elements, from number `first` on: those that exist keep their deadlines,
-- new ones have none.
-- NEEDS: try.lua index.lua absent.lua clear.lua index
-- GIVES: keep
local function keep(elements, first)
  index_guard(index)
  if not failure then
    clear(absent(elements, first), 1)
  end
end
