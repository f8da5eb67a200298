-- The time that hash fields have left, or their deadline, rounded to the nearest second, as Valkey does.
-- KEYS: data index
-- ARGV: unit base field...
-- RESULT: for each field the time in units of so many ms; -1 no deadline, -2 no such field
-- include try
-- include clock
-- include index
-- include hash
-- include native_deadline
-- include typed
local replies = {}
for i = first_field, #ARGV do
  local deadline = has(ARGV[i]) == 1 and index_get(index, ARGV[i])
  if deadline then
    replies[#replies + 1] = math.floor((math.max(deadline - base * now, 0) + unit / 2) / unit)
  else
    replies[#replies + 1] = has(ARGV[i]) - 2
  end
end
return replies
