-- ONWRITE without a time: the rule of one name, or all rules that the client may read.
-- READS
-- KEYS: rules
-- ARGV: name...
-- RESULT: [pattern, word, ...], nil if there is none; without a name a list of all rules, the longest pattern first,
--   then in the order of bytes, a rule for one type before a rule for all
-- include stored_rules
if ARGV[first_name] then
  local rule = words_of_rule(ARGV[first_name])
  return not is_wrong_type(rule) and rule
end
return rules_listed(is_of_write, words_of_rule)
