-- keep() for a list.
-- NEEDS: try.lua index.lua list_clear.lua index
-- GIVES: keep

-- Call it before a write that puts values into the list: a value that exists keeps its deadline, a new one has none.
local function keep(values, first)
  index_guard(index)
  if not failure then
    clear_absent(values, first)
  end
end
