-- Which slots of a Cluster's node may have managed keys: those whose schedule is not known to be empty. A
-- slot that has left, or is on its way, is among them, because Redis does not let a script look there.
-- READS IN ALL SLOTS
-- KEYS:
-- ARGV: words
-- `words` has the three characters of the word of each slot to look at.
-- RESULT: the words of these slots, as one text
-- include index
local found = {}
for at = 1, #words, 3 do
  local word = string.sub(words, at, at + 2)
  if index_may_have_entries(prefix .. const.SCHEDULE .. ':{' .. word .. '}') then
    found[#found + 1] = word
  end
end
return table.concat(found)
