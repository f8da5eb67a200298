-- MOVE: moves the index to the other database too.
-- KEYS: data index schedule
-- ARGV: db there
-- RESULT: the reply of the command
-- include databases
local moves = there ~= here and redis.call('EXISTS', data) == 1 and within(there, function()
  if redis.call('EXISTS', data) == 1 then
    return false
  end
  index_drop(data, index, schedule)
  return true
end)
local first = moves and index_first(index)
if first and not failure then
  local attention = schedule_get(schedule, data) or ms(first)
  -- Every command that Redis may refuse is tried before anything is moved.
  index_guard(index)
  announce_guard()
  index_leave(data, index, schedule, there)
  within(there, function()
    index_arrived(there, prefix, data, index, schedule, attention)
  end)
elseif moves and not failure then
  index_release(data, index, schedule)
end
return try('MOVE', data, there)
