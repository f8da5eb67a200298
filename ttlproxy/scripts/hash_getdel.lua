-- HGETDEL: the values of hash fields, which are deleted with their deadlines.
-- KEYS: data index schedule
-- ARGV: field...
-- RESULT: for each field its value, nil where there is none
-- include try
-- include index
-- include hash
-- include typed
local values, fields, taken, cleared = {}, {}, {}, 0
for i = first_field, #ARGV do
  local field = ARGV[i]
  local value = not taken[field] and redis.pcall('HGET', data, field)
  if type(value) == 'table' then
    return value
  end
  if value then
    taken[field] = true
    fields[#fields + 1] = field
  end
  values[#values + 1] = value
end
batches(1, #fields, function(from, to)
  cleared = cleared + (tonumber(index_clear(index, unpack(fields, from, to))) or 0)
end)
if failure then
  return failure
end
batches(1, #fields, function(from, to)
  remove(unpack(fields, from, to))
end)
index_was_cleared(data, index, schedule, cleared)
return failure or values
