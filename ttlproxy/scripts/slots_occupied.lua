-- The slots of a node of a Cluster that may have managed keys: those whose schedule is not known to be empty, also
-- slots that another node has or gets, because Redis does not let a script read them.
-- READS IN ALL SLOTS
-- KEYS:
-- ARGV: words
-- `words` has the tag, of three characters, of each slot to check.
-- RESULT: the tags of these slots, as one text
-- include index
local found = {}
for at = 1, #words, 3 do
  local word = string.sub(words, at, at + 2)
  if index_may_have_entries(prefix .. const.SCHEDULE .. ':{' .. word .. '}') then
    found[#found + 1] = word
  end
end
return table.concat(found)
