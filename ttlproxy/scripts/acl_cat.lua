-- ACL CAT of one category: the names that the link has heard, which Lua may not ask for, and ours.
-- READS
-- KEYS:
-- ARGV: names
-- RESULT: the command's
local found = {}
for name in string.gmatch(names, '%S+') do
  found[#found + 1] = name
end
return found
