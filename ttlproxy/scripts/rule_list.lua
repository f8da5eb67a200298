-- ONEXPIRE without an action: the rule of one pattern, or all rules that the client may read.
-- READS
-- KEYS: rules
-- ARGV: pattern...
-- RESULT: [pattern, word, ...], nil if there is none; without a pattern a list of all rules, the longest pattern first,
--   because the first one that matches is used
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
return rules_listed(function(name)
  return not is_of_write(name)
end, rule_of)
