-- ONEXPIRE without an action: the rule of one pattern, or all.
-- KEYS: rules
-- ARGV: pattern...
-- RESULT: [pattern, word, ...], nil where there is none; without a pattern one for each, the longest
--   pattern first, which is the order in which they count
-- include netstrings
local function told(pattern, rule)
  local words = words_from(4, rule)
  table.insert(words, 1, pattern)
  return words
end

if ARGV[first_pattern] then
  local rule = redis.pcall('HGET', rules, ':' .. ARGV[first_pattern])
  return type(rule) == 'string' and told(ARGV[first_pattern], rule) or rule
end
local fields = redis.pcall('HGETALL', rules)
if fields.err then
  return fields
end
local found = {}
for i = 1, #fields, 2 do
  if string.sub(fields[i], 1, 1) == ':' then
    found[#found + 1] = told(string.sub(fields[i], 2), fields[i + 1])
  end
end
table.sort(found, function(one, other)
  if #one[1] ~= #other[1] then
    return #one[1] > #other[1]
  end
  return one[1] < other[1]
end)
return found
