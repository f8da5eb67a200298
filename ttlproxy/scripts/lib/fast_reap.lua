-- The fast path of a reap of one key whose deadlines are all past, so that no other is to be planned; nothing is handed
-- on or published.
-- NEEDS: try.lua clock.lua schedule rules first_key first_action limit version count
if count == '1' and #KEYS == first_key + 1 and not ARGV[first_action] then
  local data, index = KEYS[first_key], KEYS[first_key + 1]
  local kind = redis.call('TYPE', data).ok
  local remover = kind == 'hash' and 'HDEL' or kind == 'set' and 'SREM' or kind == 'zset' and 'ZREM'
  local known = redis.pcall('HGET', rules, const.VERSION) or ''
  if
    remover
    and (known == version or '+' .. tostring(known) == version)
    and not string.find(events, string.sub(kind, 1, 1))
    and string.sub(data, 1, #prefix) ~= prefix
  then
    local due = redis.pcall('ZRANGEBYSCORE', index, '-inf', '(' .. string.format('%.0f', now), 'LIMIT', '0', limit)
    if due[1] and #due < const.LONG_PAGE and redis.call('ZCARD', index) == #due then
      local late = now - tonumber(redis.call('ZSCORE', index, due[1]))
      local removed = try(remover, data, unpack(due))
      try('ZREMRANGEBYRANK', index, '0', '-1')
      try('ZREM', schedule, data)
      local clock = redis.call('TIME')
      local took = (clock[1] - time[1]) * 1000000 + clock[2] - time[2]
      return failure or { now, took, { removed, const.NO_DEADLINE, 0, kind, late, 0, 0, 0 } }
    end
  end
end
