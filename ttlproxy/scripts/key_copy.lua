-- COPY: copies the index too, also to another database; the index of the old target is deleted.
-- KEYS: data target index target_index schedule
-- ARGV: db there replace word...
-- RESULT: the reply of the command
-- include index
index_guard(target_index)
announce_guard()
if failure then
  return failure
end
-- include databases
there = there ~= '' and there or here
local copies = redis.call('EXISTS', data) == 1 and not (data == target and there == here)
  and within(there, function()
    return replace == '1' or redis.call('EXISTS', target) == 0
  end)
if copies and not failure then
  local first = index_first(index)
  local attention = first and (schedule_get(schedule, data) or ms(first))
  if first then
    index_copy(index, target_index, there)
  else
    index_release(data, index, schedule)
  end
  within(there, function()
    if first then
      index_arrived(there, prefix, target, target_index, schedule, attention)
    else
      index_drop(target, target_index, schedule)
    end
  end)
end
return try('COPY', data, target, unpack(ARGV, first_word))
