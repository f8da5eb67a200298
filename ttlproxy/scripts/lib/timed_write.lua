-- Writes elements and gives them a deadline in one step.
-- NEEDS: words.lua try.lua clock.lua deadline.lua index.lua events.lua deadlines_changed.lua absent.lua
-- NEEDS: index data schedule
-- GIVES: write_timed

-- Gives elements the deadline `at`, or none if it is nil; with `keep`, elements that exist keep theirs. `write` writes
-- the elements. Elements that are removed at once are written before, because Redis 8 publishes both events; but not
-- with `keep`, because elements that exist stay unchanged.
local function write_timed(elements, keep, write)
  local before, cleared = (index_follow(data, index, schedule, now)), 0
  local changed = keep and absent(elements, 1) or elements
  local dated = at and not at_once and changed or {}
  if dated[1] then
    index_set_all(index, changed, at, before)
  else
    index_guard(index)
    cleared = index_clear_all(index, changed, 1)
  end
  if at_once then
    for _, element in ipairs(changed) do
      remove_at_end(element)
    end
    if not keep then
      write()
    end
  end
  deadlines_changed(before, dated, cleared)
  if not (failure or at_once) then
    write()
  end
  if not failure then
    notify(class, 'expire', db, data, dated)
  end
end
