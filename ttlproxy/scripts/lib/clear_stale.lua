-- Clears deadlines that pushed values must not get: of an equal value that a consumer has taken, and of an equal
-- value that is past its deadline, but not reaped yet. A key of another type in the place of an index has no deadlines.
-- NEEDS: clock.lua index.lua schedule index_name
-- GIVES: clear_stale
local function clear_stale(list, values)
  local list_index = index_name[list]
  if index_count(list_index) == 0 then
    return
  end
  local cleared = 0
  for _, value in ipairs(values) do
    local deadline = index_get(list_index, value)
    if deadline and (deadline < now or not redis.call('LPOS', list, value)) then
      cleared = cleared + (tonumber(index_remove(list_index, value)) or 0)
    end
  end
  index_was_cleared(list, list_index, schedule, cleared)
end
