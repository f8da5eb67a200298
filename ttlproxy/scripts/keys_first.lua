-- The first deadline of each key.
-- READS
-- KEYS: key...
-- ARGV:
-- RESULT: for each key its first deadline in ms, -1 without an index, null if a key of another type is in the place of
--   the index
-- The keys are all data keys, then all their indexes.
-- include index
local firsts = {}
for at = (first_key + #KEYS + 1) / 2, #KEYS do
  local page = index_page(KEYS[at], 0, 1)
  local first = not page.err and bound_of(tonumber(page[2]), index_ends(KEYS[at]))
  firsts[#firsts + 1] = not page.err and (first or const.NO_DEADLINE)
end
return firsts
