-- ACL CAT of one category: `names` are those of Redis, which the link has read because scripts may not, and those of
-- our commands.
-- READS
-- KEYS:
-- ARGV: names
-- RESULT: the reply of the command
local found = {}
for name in string.gmatch(names, '%S+') do
  found[#found + 1] = name
end
return found
