-- HSETEX: writes hash fields and their deadline in one step.
-- KEYS: data index schedule
-- ARGV: origin how pair...
-- RESULT: 1 written, 0 condition not met
-- include words
-- include try
-- include clock
-- include deadline
-- include index
-- include hash
-- include typed
-- include timed_write
local fields = {}
for i = first_pair, #ARGV, 2 do
  local field = ARGV[i]
  if condition ~= '' and has(field) ~= (condition == 'FXX' and 1 or 0) then
    return 0
  end
  fields[#fields + 1] = field
end
if write_deadlines(fields, flag == '1') and not failure then
  batches(first_pair, #ARGV, function(from, to)
    try('HSET', data, unpack(ARGV, from, to))
  end)
end
return failure or 1
