-- ONEXPIRE pattern DEL: elements of keys that match it are deleted again, and no more.
-- KEYS: rules sample...
-- ARGV: db pattern
-- RESULT: OK
-- include try
-- include clock
-- include index
-- include rules
announce_guard()
if redis.call('HEXISTS', rules, ':' .. pattern) == 1 then
  try('HDEL', rules, ':' .. pattern)
  if redis.call('HLEN', rules) == 1 then
    try('DEL', rules)
  else
    try('HSET', rules, 'version', next_version())
  end
  rules_changed('0')
end
return failure or { ok = 'OK' }
