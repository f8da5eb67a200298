-- Removes elements past their deadline, at most `limit` of each key; of a long list more, at the same cost. No other
-- script removes elements that are due, for sessions or for the reaper. If there is a rule, elements are delivered
-- first.
-- KEYS: schedule rules key...
-- ARGV: db limit budget version inner outer nonce count action...
-- RESULT: nil if the rules do not have that version any more; else now in ms; how long the script took in us; in front
--   of a Cluster when the first key of the schedule needs attention after this call, in ms, '' if it is empty; for each
--   key that was reaped Redis's error if elements cannot be delivered, or
--   [removed, first deadline left in ms or -1, 1 if the index has entries without an element and 2 if the index is
--    lost, type, how late the earliest of the due elements is in ms, delivered, of these dead-lettered,
--    commands without a valid signature]
-- After `budget` us no further key is begun. The keys are `count` data keys, then all destinations that are keys, or
-- their outboxes, then the indexes of all. There are five words of actions for each data key, the first '' if it has no
-- rule: how, destination, dead letters, and an outbox for each of these two, '' if it is in the slot of the key. There
-- are no actions without rules. `inner` and `outer` are for signatures, '' if no key has deferred commands; `nonce` is
-- a word that no call has had before, for outboxes.
-- include fast_reap
local data, index
-- include index
-- include list
-- include others
-- include deferred_names
local WORDS_OF_ACTION = 5
local all = (#KEYS - first_key + 1) / 2
-- The number of elements that this call may still deliver, at up to 10 us each.
local actions_left = 250
local deliver
if ARGV[first_action] then
  -- include deliver
end

-- Removes all entries of a list from its front, and pushes those that stay to its end: 330 ns an entry. To set an entry
-- for its removal costs 3 us (Redis 7.0, a million entries). Not used with keyspace events: subscribers would see
-- pushes.
local function rewrite(elements)
  local goes, removed, left = {}, 0, redis.call('LLEN', data)
  for _, element in ipairs(elements) do
    goes[element] = true
  end
  -- Changes nothing, but fails if LTRIM is refused; after it, a full server refuses no command of the script.
  try('LTRIM', data, 0, -1)
  while left > 0 and not failure do
    local page, stay = redis.call('LRANGE', data, 0, math.min(left, const.LONG_PAGE) - 1), {}
    for _, value in ipairs(page) do
      if not goes[value] then
        stay[#stay + 1] = value
      end
    end
    if stay[1] then
      try('RPUSH', data, unpack(stay))
    end
    try('LTRIM', data, #page, -1)
    removed, left = removed + #page - #stay, left - #page
  end
  return removed
end

local function remove_from_list(elements)
  local many = #elements > FEW and #elements > redis.call('LLEN', data) / 64
  return (many and not string.find(events, 'l') and rewrite or remove_all)(elements)
end

local function remove_due(kind, elements)
  if kind == 'list' then
    return remove_from_list(elements)
  end
  return try_all(removers[kind], data, elements, 1)
end
local lengths = const.LENGTHS

-- Redis publishes hexpired only for fields that exist.
local function publish_expired(kind, due)
  local letter, expired = letters[kind], {}
  if not string.find(events, letter) then
    return
  end
  -- include finders
  -- include events
  look_for(kind == 'list' and due or {}, 1)
  for _, element in ipairs(due) do
    if exists(kind, element) then
      expired[#expired + 1] = element
    end
  end
  notify(letter, 'expired', db, data, expired)
end

-- The schedule is written once, at the end. If that fails, keys are only checked earlier than needed.
local entries = {}

local function reschedule()
  local first, attention, bound = index_attention(data, index, schedule, now)
  if first then
    entries[#entries + 1] = ms(attention)
    entries[#entries + 1] = data
  else
    over[#over + 1] = data
  end
  return bound
end

-- The work since the clock was read last; the unit is the cost of one element.
local worked = 0
local OUTBOX = const.OUTBOX .. prefix

local function reap(number)
  if is_deferred(data) then
    -- include reap_deferred
    return reap_deferred()
  elseif string.sub(data, 1, #OUTBOX) == OUTBOX then
    return { 0, now, 0, 'list', 0, 0, 0, 0 } -- what is in there is carried elsewhere
  end
  local kind, most = redis.call('TYPE', data).ok, limit
  local fires = (ARGV[first_action + WORDS_OF_ACTION * (number - 1)] or '') ~= ''
  if kind == 'list' then
    most = math.max(most, math.floor(redis.call('LLEN', data) / 8))
  end
  if fires then
    most = math.min(most, actions_left)
  end
  local due, ends
  if removers[kind] then
    due, ends = index_due_and_ends(index, now, most)
  end
  local key_has_expired = ends and ends < now
  if not due or is_no_index(due) or key_has_expired and not index_follow(data, index, schedule, now) then
    worked = worked + 5
    index_drop(data, index, schedule)
    return { 0, const.NO_DEADLINE, 0, kind, 0, 0, 0, 0 }
  elseif due.err then
    failure = due
    return
  elseif key_has_expired then
    due = index_due(index, ends + 1, most) -- the others go with the key
  end
  local is_lost = not due[1] and index_count(index) == 0 and schedule_has(schedule, data)
  worked = worked + 15 + #due
  local late = due[1] and now - index_get(index, due[1]) or 0
  local trouble, fired, dead_lettered, found = nil, 0, 0, #due
  if fires and due[1] then
    due, trouble, fired, dead_lettered = deliver(kind, due, number)
  end
  publish_expired(kind, due)
  -- Unlike in other scripts, elements are removed before their deadlines: if that is refused, they keep these.
  local removed = remove_due(kind, due)
  index_remove_first(index, due, found, ends)
  if failure then
    return
  end
  if key_has_expired and trouble then
    -- A client that writes to the key in the meantime writes to a new key.
    index_outlives(data, index)
  elseif key_has_expired and not index_due(index, ends + 1, 1)[1] then
    try('DEL', data)
    index_drop(data, index, schedule)
  end
  local first = reschedule()
  local has_stale = first and index_size(index) > redis.call(lengths[kind], data)
  local fault = is_lost and 2 or has_stale and 1 or 0
  return trouble or { removed, first or const.NO_DEADLINE, fault, kind, late, fired, dead_lettered, 0 }
end

-- Returns whether there is no time for another key. Reading the clock costs as much as one element, so it is read once
-- per hundred.
local function out_of_budget()
  if worked < 100 then
    return false
  end
  worked = 0
  return actions_left <= 0 or passed_us() > tonumber(budget)
end

-- '*' means any version: somebody changes it all the time. In front of a Cluster it is `+version`: a slot may not have
-- the latest version yet, which is written here.
local current = redis.pcall('HGET', rules, const.VERSION)
current = type(current) == 'string' and current or ''
local own = string.match(version, '^%+(.*)$')
if own then
  local lead = (tonumber(own) or 0) - (tonumber(current) or 0)
  if lead < 0 then
    return false
  elseif lead > 0 then
    redis.pcall('HSET', rules, const.VERSION, own)
  end
elseif version ~= '*' and version ~= current then
  return false
end
index_write_when_full(KEYS[first_key + all])
for number = reached + 1, count do
  local at = first_key + number - 1
  data, index, looked_for = KEYS[at], KEYS[at + all], {}
  reaped[#reaped + 1] = reap(number)
  if failure then
    return failure
  end
  if out_of_budget() then
    break
  end
end
entries_write(schedule, entries, over)
reaped[3] = first_attention()
reaped[2] = passed_us()
return failure or reaped
