-- include events
-- include departures
-- The elements that were given a deadline: once they are written, `notify` says so.
local dated = {}

-- Deadlines of elements that are about to be written: `at`, or none where at is nil; with `keep`,
-- elements that are there keep what they have. True where the elements are still to be written,
-- false where the deadline is already past and they are gone.
local function write_deadlines(elements, keep)
  local before, cleared = index_first(index), 0
  local past = at and at <= now
  if not at then
    index_guard(index)
  end
  for _, element in ipairs(elements) do
    if failure then
      return
    end
    if not (keep and has(element) == 1) then
      if at and not past then
        index_set(index, element, at)
        dated[#dated + 1] = element
      else
        cleared = cleared + (tonumber(index_clear(index, element)) or 0)
        if past then
          depart(element)
        end
      end
    end
  end
  if dated[1] then
    index_was_set(db, prefix, data, index, schedule, now, before, at)
  end
  index_was_cleared(data, index, schedule, cleared)
  remove_departures()
  return not past
end
