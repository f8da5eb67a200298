-- keep() for a list.
-- NEEDS: try.lua index.lua index
-- GIVES: keep
-- include list_clear
-- Call it before a write that puts values into the list: a value that exists keeps its deadline, a new one has none.
local function keep(values, first)
  index_guard(index)
  if not failure then
    clear_absent(values, first)
  end
end
