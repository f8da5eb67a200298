-- Call it before a write that changes or makes an element: an old element keeps its deadline, a new one
-- has none.
-- NEEDS: try.lua index.lua has index data schedule
-- GIVES: keep
local function keep(element)
  index_guard(index)
  if not failure and has(element) == 0 then
    index_was_cleared(data, index, schedule, index_clear(index, element))
  end
end
