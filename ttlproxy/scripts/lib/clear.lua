-- Clears the deadlines of `elements`, from number `first` on.
-- NEEDS: index.lua index data schedule
-- GIVES: clear
local function clear(elements, first)
  index_was_cleared(data, index, schedule, index_clear_all(index, elements, first))
end
