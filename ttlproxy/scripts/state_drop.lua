-- Deletes the state that all proxies of a server share, if no database has other internal keys.
-- KEYS: state others
-- ARGV: database...
-- RESULT: 1 if it is deleted, else 0
for i = first_database, #ARGV do
  redis.call('SELECT', ARGV[i])
  local left = redis.call('EXISTS', prefix .. const.SCHEDULE .. slot_tag, prefix .. const.RULES .. slot_tag)
  for _, name in ipairs(redis.call('SMEMBERS', others)) do
    left = left + (name == state and 0 or 1)
  end
  if left > 0 then
    return 0
  end
end
for i = first_database, #ARGV do
  redis.call('SELECT', ARGV[i])
  redis.call('DEL', state, others)
end
return 1
