-- Sets the deadline that a moved element had in the source key also in the target key; without a deadline, removes a
-- stale entry there.
-- NEEDS: try.lua clock.lua index.lua target target_index schedule db
-- GIVES: carry_deadline
local function carry_deadline(element, deadline)
  if not deadline then
    index_was_cleared(target, target_index, schedule, index_clear(target_index, element))
    return
  end
  local before = index_follow(target, target_index, schedule, now)
  index_set(target_index, element, deadline, before)
  if not failure then
    index_was_set(db, prefix, target, target_index, schedule, now, before, deadline)
  end
end
