-- include events
-- include settle
-- Deadlines of elements that are about to be written: `at`, or none where at is nil; with `keep`,
-- elements that are there keep what they have. Where it is `at_once` they are gone.
-- Gives those that have the new deadline.
local function write_deadlines(elements, keep)
  local before, dated, cleared = index_first(index), {}, 0
  if not at then
    index_guard(index)
  end
  for _, element in ipairs(elements) do
    if failure then
      return
    end
    if not (keep and has(element) == 1) then
      if at and not at_once then
        index_set(index, element, at, before)
        dated[#dated + 1] = element
      else
        cleared = cleared + (tonumber(index_clear(index, element)) or 0)
        if at_once then
          depart(element)
        end
      end
    end
  end
  settle(before, dated, cleared)
  return dated
end

-- Elements and their deadline: `write` writes them, unless they go at once.
local function write_timed(elements, keep, write)
  local dated = write_deadlines(elements, keep)
  if not (failure or at_once) then
    write()
  end
  if not failure then
    notify(class, 'expire', db, data, dated)
  end
end
