-- ONEXPIRE without an action: the rule of one pattern, or all rules that the client may read.
-- READS
-- KEYS: rules
-- ARGV: pattern...
-- RESULT: [pattern, word, ...], nil where there is none; without a pattern one for each, the longest
--   pattern first, which is the order in which they count
-- include stored_rules
local function rule_of(pattern)
  local words = words_of_rule(pattern)
  if type(words) == 'table' and not words.err then
    table.insert(words, 1, pattern)
  end
  return words
end

if ARGV[first_pattern] then
  local rule = rule_of(ARGV[first_pattern])
  return not is_wrong_type(rule) and rule
end
local fields = redis.pcall('HKEYS', rules)
if fields.err then
  return is_wrong_type(fields) and {} or fields
end

local found = {}
for _, field in ipairs(fields) do
  local pattern = string.sub(field, 2)
  local is_ours = field ~= const.VERSION and string.sub(pattern, 1, #const.WRITE_RULE) ~= const.WRITE_RULE
  local rule = is_ours and may_read(pattern) and rule_of(pattern)
  if rule and not rule.err then
    found[#found + 1] = rule
  end
end
table.sort(found, function(one, other)
  if #one[1] ~= #other[1] then
    return #one[1] > #other[1]
  end
  return one[1] < other[1]
end)
return found
