-- The slots of a node of a Cluster that have managed keys.
-- READS IN ALL SLOTS
-- KEYS: schedule
-- ARGV: word...
-- The schedule is that of any slot; a word is the tag of a slot.
-- RESULT: [[the number of the word, from 0 on, keys, when the first needs attention in ms] ...], without empty slots
-- include index
local name, found = string.sub(schedule, 1, -#slot_tag - 1), {}
for at = first_word, #ARGV do
  local there = name .. ':{' .. ARGV[at] .. '}'
  local size = index_count(there)
  if size > 0 then
    found[#found + 1] = { at - first_word, size, tonumber(index_page(there, 0, 1)[2]) }
  end
end
return found
