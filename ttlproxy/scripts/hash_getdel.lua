-- HGETDEL: returns the values of hash fields, and deletes the fields with their deadlines.
-- KEYS: data index schedule
-- ARGV: field...
-- RESULT: for each field its value, nil if there is none
-- include hash
-- include check_type
-- include clear
local values, fields, taken = {}, {}, {}
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
clear(fields, 1)
if failure then
  return failure
end
remove(fields, 1)
return failure or values
