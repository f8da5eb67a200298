-- The fast path of a reap of a few keys whose deadlines are all past, so that no others are to be planned; nothing is
-- handed on or published.
-- NEEDS: try.lua clock.lua stopwatch.lua schedule rules first_key first_action limit version count
-- GIVES: first_attention

-- In front of a Cluster, when the first key of the schedule needs attention, as text, or Redis's error.
local function first_attention()
  local head = slot_tag ~= '' and redis.pcall('ZRANGE', schedule, '0', '0', 'WITHSCORES') or {}
  return head.err and head or head[2] or ''
end

local keys = tonumber(count)
if keys <= 8 and #KEYS == first_key - 1 + 2 * keys and not ARGV[first_action] then
  local known = redis.pcall('HGET', rules, const.VERSION) or ''
  local is_ordinary = known == version or '+' .. tostring(known) == version
  local before, at, elements = '(' .. string.format('%.0f', now), 0, 0
  local kinds, dues = {}, {}
  while is_ordinary and at < keys do
    local data, index = KEYS[first_key + at], KEYS[first_key + keys + at]
    local kind = redis.call('TYPE', data).ok
    local may_be = (kind == 'hash' or kind == 'set' or kind == 'zset')
      and not string.find(events, string.sub(kind, 1, 1))
      and string.sub(data, 1, #prefix) ~= prefix
    -- First how many there are: what is due of a large index is not read in vain.
    local size = may_be and tonumber(redis.pcall('ZCARD', index)) or 0
    elements = elements + size
    may_be = size > 0 and size <= tonumber(limit) and elements <= const.LONG_PAGE
    local due = may_be and redis.pcall('ZRANGEBYSCORE', index, '0', before, 'LIMIT', '0', limit)
    is_ordinary = due and #due == size
    at = at + 1
    kinds[at], dues[at] = kind, due
  end
  if is_ordinary then
    local reaped = { now, 0, '' }
    for number = 1, keys do
      local data, index = KEYS[first_key + number - 1], KEYS[first_key + keys + number - 1]
      local kind, due = kinds[number], dues[number]
      local late = now - tonumber(redis.call('ZSCORE', index, due[1]))
      local removed = try(kind == 'hash' and 'HDEL' or kind == 'set' and 'SREM' or 'ZREM', data, unpack(due))
      try('ZREMRANGEBYRANK', index, '0', '-1')
      reaped[number + 3] = { removed, const.NO_DEADLINE, 0, kind, late, 0, 0, 0 }
    end
    try('ZREM', schedule, unpack(KEYS, first_key, first_key + keys - 1))
    reaped[3] = first_attention()
    reaped[2] = passed_us()
    return failure or reaped
  end
end
