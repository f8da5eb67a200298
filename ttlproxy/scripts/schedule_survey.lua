-- Counts the keys of one database by their first deadline, and returns some sample keys.
-- READS
-- KEYS: schedule
-- ARGV: some edge...
-- RESULT: [keys, for each edge (ms, ascending) the keys due before now + edge, at most `some` keys picked at random]
-- include clock
-- include index
local counts = {}
for at = first_edge, #ARGV do
  counts[#counts + 1] = schedule_due_count(schedule, now + ARGV[at])
end
return { index_count(schedule), counts, schedule_some(schedule, some) }
