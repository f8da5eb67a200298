-- ONEXPIRE pattern DEL, ONWRITE pattern DEL: removes the rule.
-- KEYS: rules rule others sample...
-- ARGV: db pattern samples slots
-- RESULT: OK
-- The samples and slots are as in rule_set.lua.
-- include rules
-- include others
-- include samples
-- include slot_versions
announce_guard()
rules_make_room()
local refusal = failure or refused_sample(samples)
if refusal then
  return refusal
end
local version
if redis.call('EXISTS', rule) == 1 or redis.call('HEXISTS', rules, ':' .. pattern) == 1 then
  local left = redis.call('HLEN', rules) - redis.call('HEXISTS', rules, ':' .. pattern)
  version = next_version()
  try('DEL', rule)
  try('HDEL', rules, ':' .. pattern)
  -- In front of a Cluster the version stays, because the other slots have it.
  if left <= 1 and '' .. home_tag == '' then
    try('DEL', rules)
  else
    try('HSET', rules, const.VERSION, version)
  end
  rules_changed('0')
  others_gone(rule)
end
return failure or version and rules_spread(version, slots) or { ok = 'OK' }
