-- Claims keys until the instant `ends`, and tells the proxies that have looked them up
-- (link/knowledge/claims.py).
-- KEYS: claimed others claim...
-- ARGV: now ends
-- Both are in ms. Claims that have ended go; '' stays, so that `others` may name the sorted set.
-- RESULT: true
redis.call('ZREMRANGEBYSCORE', claimed, '-inf', now)
redis.call('ZADD', claimed, '+inf', '')
redis.call('SADD', others, claimed)
for i = first_claim, #KEYS do
  local tail = string.sub(KEYS[i], #prefix + #const.CLAIM + 1)
  redis.call('ZADD', claimed, ends, prefix .. tail)
  redis.call('SET', KEYS[i], '')
  redis.call('DEL', KEYS[i])
end
return true
