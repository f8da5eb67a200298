-- ONEXPIRE with an action: sets the action for elements at their deadline, in keys that match a pattern. ONWRITE with a
-- time: sets the deadlines of elements that native commands write to such keys.
-- KEYS: rules rule others sample...
-- ARGV: db pattern row signature counts samples slots verb dest...
-- RESULT: OK
-- The samples are matching keys and destinations: Redis checks that the client may access them. In front of a Cluster
-- they are netstrings, and `slots` are the slots that get the new version: see slots_learn.lua.
-- include rules
-- include rule_refusal
-- include others
-- include samples
-- include slot_versions
rules_make_room()
if failure then
  return failure
end
local refusal = refused_sample(samples) or refusal_of(verb)
if refusal then
  return refusal
end
-- A limit, because each proxy reads all rules when one changes, and searches all for each due key.
local most = 1000
if redis.call('EXISTS', rule) == 0 and redis.call('HLEN', rules) > most then
  return {
    err = string.format(
      'ERR there are already %d rules in this database; DEL in place of an action or a time removes one', most
    ),
  }
end
announce_guard()
try('SET', rule, signature .. row)
local version = next_version()
try('HSET', rules, ':' .. pattern, '', const.VERSION, version)
rules_changed(counts)
if not failure then
  others_add(rule)
end
return failure or rules_spread(version, slots) or { ok = 'OK' }
