-- ONEXPIRE with an action: what becomes of elements at their deadline, in keys that match a pattern.
-- KEYS: rules sample...
-- ARGV: db pattern rule counts verb dest...
-- RESULT: OK
-- The samples are keys that match, and destinations: Redis asks whether the client may touch them.
-- include try
-- include clock
-- include index
-- include rules
-- include visible
-- include may_fire
local refusal = refusal_of(verb)
if refusal then
  return refusal
end
-- Each proxy reads all of them when one changes, and looks among them when a key falls due.
local most = 1000
if redis.call('HEXISTS', rules, ':' .. pattern) == 0 and redis.call('HLEN', rules) > most then
  return {
    err = string.format(
      'ERR there are %d rules in this database already; ONEXPIRE pattern DEL makes room', most
    ),
  }
end
announce_guard()
try('HSET', rules, ':' .. pattern, rule, 'version', next_version())
rules_changed(counts)
return failure or { ok = 'OK' }
