-- Before a write that alters an element or makes it: one that is there keeps its deadline, a new one
-- has none.
local function keep(element)
  index_guard(index)
  if not failure and has(element) == 0 then
    index_was_cleared(data, index, schedule, index_clear(index, element))
  end
end
