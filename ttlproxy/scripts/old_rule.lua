-- Converts version 0.1: a rule gets its own key, and a signature.
-- KEYS: rules rule others
-- ARGV: pattern row signature
-- RESULT: 1 done, 0 it is another one now
-- include try
-- include others
local listed = ':' .. pattern
if redis.call('HGET', rules, listed) ~= row then
  return 0
end
try('SET', rule, signature .. row)
try('HSET', rules, listed, '')
others_add(rule)
return failure or 1
