-- ONWRITE without a time: the rule of one name, or all rules that the client may read.
-- READS
-- KEYS: rules
-- ARGV: name...
-- RESULT: [pattern, word, ...], nil where there is none; without a name one for each, the longest pattern
--   first, then in the order of bytes, one for a type before one for all
-- include stored_rules
local MARK = const.WRITE_RULE

if ARGV[first_name] then
  local rule = words_of_rule(ARGV[first_name])
  return not is_wrong_type(rule) and rule
end
local fields = redis.pcall('HKEYS', rules)
if fields.err then
  return is_wrong_type(fields) and {} or fields
end

local found = {}
for _, field in ipairs(fields) do
  local name = string.sub(field, 2)
  local rule = string.sub(name, 1, #MARK) == MARK and may_read(name) and words_of_rule(name)
  if rule and not rule.err and rule[1] then
    found[#found + 1] = rule
  end
end
table.sort(found, function(one, other)
  if #one[1] ~= #other[1] then
    return #one[1] > #other[1]
  elseif one[1] ~= other[1] then
    return one[1] < other[1]
  end
  return one[2] .. one[3] > other[2] .. other[3]
end)
return found
