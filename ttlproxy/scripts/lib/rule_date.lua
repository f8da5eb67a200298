-- Call rule_date() after a write: it gives `element` the deadline `at`, or clears a stale one if there is no rule. Call
-- rule_guard() before the write: it fails if Redis will refuse the deadline.
-- NEEDS: try.lua clock.lua deadline.lua index.lua events.lua index data schedule db
-- GIVES: rule_guard rule_date
local function rule_guard()
  index_guard(index)
  if at then
    announce_guard()
  end
end

local function rule_date(element)
  if not at then
    index_was_cleared(data, index, schedule, index_clear(index, element))
    return
  end
  local before = index_follow(data, index, schedule, now)
  index_set_all(index, { element }, at, before)
  index_was_set(db, prefix, data, index, schedule, now, before, at)
  if not failure then
    notify(class, 'expire', db, data, { element })
  end
end
