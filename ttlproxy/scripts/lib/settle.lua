-- include departures
-- After deadlines were changed: `dated` were given the deadline `at`, where the first of all was
-- `before`; `cleared` is how many lost theirs; elements whose time is past go.
local function settle(before, dated, cleared)
  if dated[1] then
    index_was_set(db, prefix, data, index, schedule, now, before, at)
  end
  index_was_cleared(data, index, schedule, cleared)
  remove_departures()
end
