-- ONEXPIRE pattern DEL: removes the rule, so elements of matching keys are only deleted again.
-- KEYS: rules rule others sample...
-- ARGV: db pattern
-- RESULT: OK
-- include try
-- include clock
-- include index
-- include rules
-- include others
announce_guard()
rules_make_room()
if failure then
  return failure
end
if redis.call('EXISTS', rule) == 1 or redis.call('HEXISTS', rules, ':' .. pattern) == 1 then
  local left = redis.call('HLEN', rules) - redis.call('HEXISTS', rules, ':' .. pattern)
  try('DEL', rule)
  try('HDEL', rules, ':' .. pattern)
  if left <= 1 then
    try('DEL', rules)
  else
    try('HSET', rules, const.VERSION, next_version())
  end
  rules_changed('0')
  others_gone(rule)
end
return failure or { ok = 'OK' }
