-- Counts the elements of each key by their deadlines.
-- READS
-- KEYS: key...
-- ARGV: edge...
-- RESULT: for each key [type, elements with a deadline, for each edge (ms, ascending) the elements due before
--   now + edge]; the counts end when all elements are counted
-- The keys are all data keys, then all their indexes.
-- include clock
-- include index
local found, keys = {}, (#KEYS - first_key + 1) / 2
for at = first_key, first_key + keys - 1 do
  local index, counts = KEYS[at + keys], {}
  local size = index_due_count(index, math.huge)
  for edge = first_edge, #ARGV do
    counts[#counts + 1] = index_due_count(index, now + ARGV[edge])
    if counts[#counts] == size then
      break
    end
  end
  found[#found + 1] = { redis.call('TYPE', KEYS[at]).ok, size, counts }
end
return found
