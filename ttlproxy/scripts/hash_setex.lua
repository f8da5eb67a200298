-- HSETEX: writes hash fields and their deadline in one step.
-- KEYS: data index schedule
-- ARGV: origin how pair...
-- RESULT: 1 written, 0 condition not met or too many fields
-- include words
-- include try
-- include clock
-- include deadline
-- include index
-- include hash
-- include typed
-- include timed_write
-- include hash_cap
-- include cap
local fields, met, added = {}, {}, 0
for i = first_pair, #ARGV, 2 do
  local field = ARGV[i]
  local there = (condition ~= '' or cap ~= '') and has(field)
  if condition ~= '' and there ~= (condition == 'FXX' and 1 or 0) then
    return 0
  end
  if there == 0 and not met[field] then
    added = added + 1
  end
  met[field] = true
  fields[#fields + 1] = field
end
if not has_room(fields, added) then
  return 0
end
if write_deadlines(fields, flag == '1') and not failure then
  batches(first_pair, #ARGV, function(from, to)
    try('HSET', data, unpack(ARGV, from, to))
  end)
end
return failure or 1
