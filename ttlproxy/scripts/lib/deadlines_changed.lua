-- The last step after deadlines were changed.
-- Elements whose deadline is already past are removed together, after all deadlines are written, and in one call, for
-- which Redis publishes one event. `is_past` has those elements, and others that got a deadline in the past but stay
-- until they are reaped.
-- NEEDS: words.lua try.lua clock.lua deadline.lua index.lua remove data index schedule
-- GIVES: is_past remove_at_end deadlines_changed
local is_past, removals = {}, {}

local function remove_at_end(element)
  if not is_past[element] then
    is_past[element] = true
    removals[#removals + 1] = element
  end
end

-- Call it after deadlines were changed: the elements `dated` got the deadline `at`, as many elements as `cleared` lost
-- theirs, and `before` was the first deadline of the key. Removes elements whose deadline is past.
local function deadlines_changed(before, dated, cleared)
  if dated[1] then
    index_was_set(db, prefix, data, index, schedule, now, before, at)
  end
  index_was_cleared(data, index, schedule, cleared)
  if not failure then
    remove(removals, 1)
  end
end
