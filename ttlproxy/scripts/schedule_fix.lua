-- Puts a key that has an index into the schedule if it is missing there or stands too late, and tells
-- every proxy.
-- KEYS: data index schedule
-- ARGV: db
-- RESULT: 1 put there, 0 it stood there in time
-- include try
-- include clock
-- include index
local first, attention = index_attention(data, index, schedule, now)
local place = first and tonumber(schedule_get(schedule, data) or math.huge)
if not first or place <= attention then
  return failure or 0
end
entries_write(schedule, { ms(attention), data }, {})
announce(db, prefix, index, attention, now)
return failure or 1
