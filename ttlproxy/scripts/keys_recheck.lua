-- Looks at some managed keys again: somebody else may have deleted them.
-- READS
-- KEYS: key...
-- ARGV:
-- RESULT: for each key its first deadline in ms; -1 without an index; null where the index is to be swept, as
--   the key is gone or of a type without elements, or something else than an index stands in its place
-- The keys are all data keys, then all their indexes.
-- include index
local WITH_ELEMENTS = { hash = true, set = true, zset = true, list = true }
local all = (#KEYS - first_key + 1) / 2
local firsts = {}
for at = first_key, first_key + all - 1 do
  local page = index_page(KEYS[all + at], 0, 1)
  local first = not page.err and (tonumber(page[2]) or const.NO_DEADLINE)
  if first and first ~= const.NO_DEADLINE and not WITH_ELEMENTS[redis.call('TYPE', KEYS[at]).ok] then
    first = false
  end
  firsts[#firsts + 1] = first
end
return firsts
