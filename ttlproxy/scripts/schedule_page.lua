-- A page of the keys of one database that need attention, the earliest first.
-- READS
-- KEYS: schedule
-- ARGV: offset count most
-- RESULT: [now in ms, keys in all, [[the first `most` bytes of the key, its length, when in ms] ...]]
-- include clock
-- include index
-- include page
local page = index_page(schedule, offset, count)
return page.err and page or { now, index_count(schedule), cut_page(page, tonumber(most)) }
