-- Removes the deadlines of the elements in ARGV; returns the reply.
-- NEEDS: try.lua index.lua events.lua each.lua has index data schedule db single
local cleared, persisted = 0, {}

local function persist(element)
  if has(element) == 0 then
    return const.NO_ELEMENT
  end
  local found, published = index_persist(index, element)
  if found == 0 then
    return const.NO_DEADLINE
  end
  cleared = cleared + 1
  if not published then
    persisted[#persisted + 1] = element
  end
  return const.DEADLINE_REMOVED
end

local replies = each(persist)
if failure then
  return failure
end
index_was_cleared(data, index, schedule, cleared)
if not failure then
  notify(class, 'persist', db, data, persisted)
end
return failure or (single == '1' and replies[1] or replies)
