-- TAKE: returns elements that a rule with KEEP kept at their deadline, and removes them.
-- KEYS: data kept others
-- ARGV: count
-- A count of 0 means all.
-- RESULT: for each [element, value, deadline in ms], the earliest first
-- include try
-- include others
local words = redis.pcall('LRANGE', kept, 0, 3 * count - 1)
if words.err then
  return words
end
if words[1] then
  try('LTRIM', kept, #words, -1)
  others_gone(kept)
end
local found = {}
for i = 1, #words, 3 do
  found[#found + 1] = { words[i], words[i + 1], tonumber(words[i + 2]) }
end
return failure or found
