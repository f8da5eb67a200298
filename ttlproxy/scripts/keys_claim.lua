-- Claims keys until the instant `ends`, and tells the proxies that have looked them up
-- (link/knowledge/claims.py). The first `count` of them are also reserved until `reserved_ends`.
-- KEYS: claimed reserved others claim...
-- ARGV: now ends reserved_ends count
-- Instants are in ms. What has ended goes, many reservations not at once; '' stays, so that `others` may name
-- the sorted sets.
-- RESULT: how many reservations that have ended are gone; if fewer than const.PAGE, all are
redis.call('ZREMRANGEBYSCORE', claimed, '-inf', now)
local ended = redis.call('ZRANGEBYSCORE', reserved, '-inf', now, 'LIMIT', 0, const.PAGE)
if ended[1] then
  redis.call('ZREM', reserved, unpack(ended))
end
for _, name in ipairs({ claimed, reserved }) do
  redis.call('ZADD', name, '+inf', '')
  redis.call('SADD', others, name)
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
return #ended
