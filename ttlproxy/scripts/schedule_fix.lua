-- Writes a key that has an index to the schedule if it is missing there, or has too late a time; and announces that to
-- all proxies.
-- KEYS: data index schedule
-- ARGV: db
-- RESULT: 1 written; 0 its time was right, or it has no deadlines
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
