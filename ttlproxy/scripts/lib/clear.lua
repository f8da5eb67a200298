-- Clears the deadlines of `elements`, from number `first` on.
-- NEEDS: try.lua index.lua index data schedule
-- GIVES: clear
local function clear(elements, first)
  local cleared = 0
  batches(first, #elements, function(from, to)
    cleared = cleared + (tonumber(index_clear(index, unpack(elements, from, to))) or 0)
  end)
  index_was_cleared(data, index, schedule, cleared)
end
