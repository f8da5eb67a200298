-- Removes the state that all proxies of a server share, if no database has anything else of theirs.
-- KEYS: state others claimed reserved
-- ARGV: database...
-- RESULT: 1 if it is gone
for i = first_database, #ARGV do
  redis.call('SELECT', ARGV[i])
  local left = redis.call('EXISTS', prefix .. const.SCHEDULE, prefix .. const.RULES)
  for _, name in ipairs(redis.call('SMEMBERS', others)) do
    left = left + ((name == state or name == claimed or name == reserved) and 0 or 1)
  end
  -- Where '' alone is left, nothing is claimed or reserved any more (keys_claim.lua).
  if left > 0 or redis.call('ZCARD', claimed) > 1 or redis.call('ZCARD', reserved) > 1 then
    return 0
  end
end
for i = first_database, #ARGV do
  redis.call('SELECT', ARGV[i])
  redis.call('DEL', state, others, claimed, reserved)
end
return 1
