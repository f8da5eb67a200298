-- HSETNX, HINCRBYFLOAT: a field that is there keeps its deadline, a new one has none.
-- KEYS: data index schedule
-- ARGV: command field value
-- RESULT: the command's
-- include try
-- include index
-- include hash
index_guard(index)
if failure then
  return failure
end
if has(field) == 0 then
  index_was_cleared(data, index, schedule, index_clear(index, field))
end
return failure or redis.pcall(command, data, field, value)
