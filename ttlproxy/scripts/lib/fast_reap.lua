-- The fast path of a reap: the first keys whose deadlines are all past and few, so that no others are to be planned;
-- nothing is handed on or published. It ends before functions are made, if these are all keys.
-- NEEDS: try.lua clock.lua stopwatch.lua schedule rules first_key first_action limit budget version count
-- GIVES: first_attention removers reaped over reached

-- In front of a Cluster, when the first key of the schedule needs attention, as text, or Redis's error.
local function first_attention()
  local head = slot_tag ~= '' and redis.pcall('ZRANGE', schedule, '0', '0', 'WITHSCORES') or {}
  return head.err and head or head[2] or ''
end

local removers = { hash = 'HDEL', set = 'SREM', zset = 'ZREM' }
-- What is told of each key, the keys that leave the schedule, and how many were looked at.
local reaped, over, reached = { now, 0, '' }, {}, 0

do
  local all, most = tonumber(count), math.min(tonumber(limit), const.FEW_DUE)
  local known = redis.pcall('HGET', rules, const.VERSION) or ''
  local is_ordinary = #KEYS == first_key - 1 + 2 * all and not ARGV[first_action]
    and (known == version or '+' .. tostring(known) == version)
  local unread = 0 -- keys since the clock was read
  while is_ordinary and reached < all do
    local data, index = KEYS[first_key + reached], KEYS[first_key + all + reached]
    local kind = redis.call('TYPE', data).ok
    local remover = removers[kind]
    local entries = remover and not string.find(events, string.sub(kind, 1, 1))
      and string.sub(data, 1, #prefix) ~= prefix
      and redis.pcall('ZRANGE', index, '0', most, 'WITHSCORES')
    local found = entries and #entries or 0
    local first = found > 0 and found <= 2 * most and tonumber(entries[2])
    is_ordinary = first and first >= 0 and tonumber(entries[found]) < now
    if is_ordinary then
      local removed
      if found == 2 then
        removed = try(remover, data, entries[1])
      else
        local due = {}
        for at = 1, found, 2 do
          due[#due + 1] = entries[at]
        end
        removed = try(remover, data, unpack(due))
      end
      try('ZREMRANGEBYRANK', index, '0', '-1')
      reached, unread = reached + 1, unread + 1
      over[reached] = data
      reaped[reached + 3] = { removed, const.NO_DEADLINE, 0, kind, now - first, 0, 0, 0 }
      if unread == 8 then
        unread = 0
        is_ordinary = passed_us() <= tonumber(budget)
      end
    end
  end
  if failure or reached == all or passed_us() > tonumber(budget) then
    batches(1, reached, function(from, to)
      try('ZREM', schedule, unpack(over, from, to))
    end)
    reaped[3] = first_attention()
    reaped[2] = passed_us()
    return failure or reaped
  end
end
