-- What falls due in one database: keys by their first deadline, and some keys to look into.
-- KEYS: schedule
-- ARGV: some edge...
-- RESULT: [keys, ms by which the most overdue of them is late, keys due before now + edge for each edge
--   (ms, ascending), at most `some` keys picked by chance]
-- include clock
-- include index
local first, counts = schedule_first(schedule), {}
for at = first_edge, #ARGV do
  counts[#counts + 1] = schedule_due_count(schedule, now + ARGV[at])
end
local late = first and math.max(now - first, 0) or 0
return { index_count(schedule), late, counts, schedule_some(schedule, some) }
