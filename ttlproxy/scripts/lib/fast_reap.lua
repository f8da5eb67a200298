-- The fast path of a reap: for the first keys, as long as each has few deadlines, which are all past, so that the key
-- leaves the schedule, and nothing is delivered or published. If all keys are like that, the script ends here, before
-- any function is made.
-- NEEDS: try.lua clock.lua stopwatch.lua schedule rules first_key first_action limit budget version count
-- GIVES: first_attention removers letters reaped over reached

-- In front of a Cluster, returns when the first key of the schedule needs attention, as text, or Redis's error.
local function first_attention()
  local head = slot_tag ~= '' and redis.pcall('ZRANGE', schedule, '0', '0', 'WITHSCORES') or {}
  return head.err and head or head[2] or ''
end

local removers, letters = const.REMOVERS, const.LETTERS
-- The reply, the keys that leave the schedule, and how many these are.
local reaped, over, reached = { now, 0, '' }, {}, 0

do
  local all, most = tonumber(count), math.min(tonumber(limit), const.FEW_DUE)
  local known = redis.pcall('HGET', rules, const.VERSION) or ''
  local is_ordinary = #KEYS == first_key - 1 + 2 * all and not ARGV[first_action]
    and (known == version or '+' .. tostring(known) == version)
  local is_late = false
  while is_ordinary and reached < all do
    local data, index = KEYS[first_key + reached], KEYS[first_key + all + reached]
    local kind = redis.call('TYPE', data).ok
    local entries = removers[kind] and kind ~= 'list'
      and not string.find(events, letters[kind])
      and string.sub(data, 1, #prefix) ~= prefix
      and redis.pcall('ZRANGE', index, '0', most, 'WITHSCORES')
    local found = entries and #entries or 0
    local first = found > 0 and found <= 2 * most and tonumber(entries[2])
    is_ordinary = first and first >= 0 and tonumber(entries[found]) < now
    if is_ordinary then
      local due = {}
      for at = 1, found, 2 do
        due[#due + 1] = entries[at]
      end
      local removed = try(removers[kind], data, unpack(due))
      try('ZREMRANGEBYRANK', index, '0', '-1')
      reached = reached + 1
      over[reached] = data
      reaped[reached + 3] = { removed, const.NO_DEADLINE, 0, kind, now - first, 0, 0, 0 }
      -- Reading the clock costs as much as a command.
      is_late = reached % 8 == 0 and passed_us() > tonumber(budget)
      is_ordinary = not (is_late or failure)
    end
  end
  if failure or is_late or reached == all then
    try('ZREM', schedule, unpack(over))
    reaped[3] = first_attention()
    reaped[2] = passed_us()
    return failure or reaped
  end
end
