-- The last step after deadlines were changed.
-- NEEDS: words.lua clock.lua deadline.lua index.lua data index schedule
-- GIVES: deadlines_changed
-- include removals
-- Call it after deadlines were changed: the elements `dated` got the deadline `at`, as many elements as `cleared` lost
-- theirs, and `before` was the first deadline of the key. Removes elements whose deadline is past.
local function deadlines_changed(before, dated, cleared)
  if dated[1] then
    index_was_set(db, prefix, data, index, schedule, now, before, at)
  end
  index_was_cleared(data, index, schedule, cleared)
  remove_past()
end
