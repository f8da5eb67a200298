-- Claims keys until the instant `ends`, and tells the proxies that have looked them up
-- (link/knowledge/claims.py). The first `count` of them are also reserved until `reserved_ends`.
-- KEYS: claimed reserved others claim...
-- ARGV: now ends reserved_ends count
-- Instants are in ms. What has ended goes; '' stays, so that `others` may name the sorted sets.
-- RESULT: true
for _, ending in ipairs({ claimed, reserved }) do
  redis.call('ZREMRANGEBYSCORE', ending, '-inf', now)
  redis.call('ZADD', ending, '+inf', '')
  redis.call('SADD', others, ending)
end
for i = first_claim, #KEYS do
  local name = prefix .. string.sub(KEYS[i], #prefix + #const.CLAIM + 1)
  redis.call('ZADD', claimed, ends, name)
  if i - first_claim < tonumber(count) then
    redis.call('ZADD', reserved, 'GT', reserved_ends, name)
  end
  redis.call('SET', KEYS[i], '')
  redis.call('DEL', KEYS[i])
end
return true
