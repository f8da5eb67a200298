-- ACL CAT of one category: Redis's names, which the link has read because Lua may not, and ours.
-- READS
-- KEYS:
-- ARGV: names
-- RESULT: the command's
local found = {}
for name in string.gmatch(names, '%S+') do
  found[#found + 1] = name
end
return found
