-- Elements whose deadline is already past are removed together, after all deadlines are written, and in one call, for
-- which Redis publishes one event. `is_past` has those elements, and others that got a deadline in the past but stay
-- until they are reaped.
-- NEEDS: try.lua remove
-- GIVES: is_past remove_at_end remove_past
local is_past, removals = {}, {}

local function remove_at_end(element)
  if not is_past[element] then
    is_past[element] = true
    removals[#removals + 1] = element
  end
end

local function remove_past()
  batches(1, #removals, function(from, to)
    if not failure then
      remove(unpack(removals, from, to))
    end
  end)
end
