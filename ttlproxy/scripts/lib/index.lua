-- The index of a data key (element -> deadline in ms), and the schedule (data key -> when it needs attention). Only
-- this file knows their format; tests/core/test_script_pieces.py lists the exceptions, with reasons.
-- NEEDS: try.lua db
-- GIVES: ms index_get index_deadlines index_first index_ends index_count index_may_have_entries index_kind
-- GIVES: index_scan index_page index_due index_due_and_ends is_no_index index_elements index_sample index_size index_due_count schedule_get schedule_has
-- GIVES: schedule_due_count schedule_some actual_db announce_guard index_set index_set_all index_evict
-- GIVES: index_remove index_remove_first beside index_clear index_clear_all index_persist index_guard
-- GIVES: announce announce_swap_guard announce_swap index_was_set index_was_cleared
-- GIVES: index_drop index_delete index_follow index_expire index_copy index_leave
-- GIVES: index_arrived index_move index_write_when_full index_attention entries_write schedule_make_room
-- GIVES: index_release expiry_is_noted kept_until key_left bound_of index_outlives
--
-- If the key itself has an expiry, one entry says when: its score is that time, negative, so it is the first entry.
-- The index has no expiry, because with `maxmemory-policy volatile-*` Redis evicts keys with one. Instead that entry
-- shows, when its time is past, that the deadlines belong to a key that has expired (decisions/0033).
-- While there are rules of ONEXPIRE, Redis gets a later expiry of the key, so that elements which are due before the
-- key expires can be delivered first. Then the key is kept: the entry says when it really expires, and the reap removes
-- it (decisions/0034).
local EXPIRY = const.KEY_EXPIRY

-- Returns a number as text with all digits; tostring() writes only 14.
local function ms(number)
  return string.format('%.0f', number)
end

local function index_get(index, element)
  local score = redis.call('ZSCORE', index, element)
  return score and tonumber(score)
end

-- For elements that have a deadline, returns the deadlines, and why each element is removed. A score that ends in .5
-- means evicted, not expired.
local function index_deadlines(index, elements)
  local deadlines, reasons = {}, {}
  for i, score in ipairs(redis.call('ZMSCORE', index, unpack(elements))) do
    local number = tonumber(score)
    deadlines[i] = math.floor(number)
    reasons[i] = number > deadlines[i] and 'evicted' or 'expired'
  end
  return deadlines, reasons
end

-- Returns the first deadline, and when the key expires by the index; each nil if there is none.
local function index_head(index)
  -- The ranks are texts, because a conversion of a number costs 0.2 us.
  local head = redis.call('ZRANGE', index, '0', '0', 'WITHSCORES')
  local score = head[2] and tonumber(head[2])
  if score and score < 0 then
    head = redis.call('ZRANGE', index, '1', '1', 'WITHSCORES')
    return head[2] and tonumber(head[2]), -score
  end
  return score
end

local function index_first(index)
  return (index_head(index))
end

-- Returns when the key expires by the index, or nil; nil also if a key of another type is in the place of the index.
local function index_ends(index)
  local score = redis.pcall('ZSCORE', index, EXPIRY)
  -- In RESP3 a score is a table.
  score = type(score) == 'table' and score.double or type(score) == 'string' and tonumber(score)
  return score and -score or nil
end

-- Returns the number of entries of an index, or of the schedule; 0 if a key of another type is in its place.
local function index_count(place)
  return tonumber(redis.pcall('ZCARD', place)) or 0
end

-- Returns whether an index, or the schedule, may have entries; true also if Redis replies with an error.
local function index_may_have_entries(place)
  return redis.pcall('ZCARD', place) ~= 0
end

-- Returns the type of the key in the place of an index; 'zset' for an index.
local function index_kind(index)
  return redis.call('TYPE', index).ok
end

-- Returns [the next cursor, [element, ...]], or Redis's error.
local function index_scan(index, cursor, count)
  local page, elements = redis.pcall('ZSCAN', index, cursor, 'COUNT', count), {}
  if page.err then
    return page
  end
  for i = 1, #page[2], 2 do
    if tonumber(page[2][i + 1]) >= 0 then
      elements[#elements + 1] = page[2][i]
    end
  end
  return { page[1], elements }
end

-- Returns [element, deadline, ...], the earliest first, or Redis's error, for example if the offset is not a number.
local function index_page(index, offset, count)
  return redis.pcall('ZRANGEBYSCORE', index, '0', '+inf', 'WITHSCORES', 'LIMIT', offset, count)
end

-- Returns elements past their deadline: `deadline < now`, as for Redis's keys and hash fields; or Redis's error if a
-- key of another type is in the place of the index.
local function index_due(index, now, limit)
  return redis.pcall('ZRANGEBYSCORE', index, '0', '(' .. ms(now), 'LIMIT', '0', limit)
end

-- `index_due` for a reap. Also returns when the key expires by the index, if that is past.
local function index_due_and_ends(index, now, limit)
  local due = redis.pcall('ZRANGEBYSCORE', index, '-inf', '(' .. ms(now), 'LIMIT', '0', limit)
  if due[1] == EXPIRY then
    table.remove(due, 1)
    return due, index_ends(index)
  end
  return due
end

-- Returns whether this is Redis's error because a key of another type is in the place of an index. Callers delete that
-- key, because otherwise each reap or sweep would fail.
local function is_no_index(reply)
  return reply.err and string.find(reply.err, 'WRONGTYPE', 1, true)
end

-- Returns elements in the order of their deadlines: all, or `count` from rank `from` on.
local function index_elements(index, from, count)
  return redis.call('ZRANGEBYSCORE', index, '0', '+inf', 'LIMIT', from or 0, count or -1)
end

-- Returns up to `count` elements, each at most once, picked at random.
local function index_sample(index, count)
  local found = {}
  for _, element in ipairs(redis.call('ZRANDMEMBER', index, count)) do
    if element ~= EXPIRY then
      found[#found + 1] = element
    end
  end
  return found
end

-- Returns the number of elements that have a deadline.
local function index_size(index)
  return redis.call('ZCOUNT', index, '0', '+inf')
end

-- Returns how many elements are past their deadline at a time in ms; 0 if a key of another type is in the place of the
-- index.
local function index_due_count(index, at)
  return tonumber(redis.pcall('ZCOUNT', index, '0', '(' .. ms(at))) or 0
end

-- Returns when a key needs attention, as text; false if it is not in the schedule.
local function schedule_get(schedule, data)
  return redis.call('ZSCORE', schedule, data)
end

-- Returns whether a key is in the schedule; a key of another type may be in the place of the schedule.
local function schedule_has(schedule, data)
  return type(redis.pcall('ZSCORE', schedule, data)) == 'string'
end

-- Returns how many keys need attention at a time in ms.
local function schedule_due_count(schedule, at)
  return redis.call('ZCOUNT', schedule, '-inf', '(' .. ms(at))
end

-- Returns up to `count` keys of the schedule, picked at random.
local function schedule_some(schedule, count)
  return redis.call('ZRANDMEMBER', schedule, count)
end

local known_db

-- Returns the number of the connection's database; nil if it is none of those in `db`. A session may not know yet
-- whether a SELECT succeeded; then `db` is for example "?3,0", the possible databases, the latest first. A MOVE to the
-- same database is an error, which shows the right one. If the client may not call MOVE, returns the first.
local function actual_db(db)
  if string.sub(db, 1, 1) ~= '?' then
    return string.match(db, '^%d+')
  end
  if known_db then
    return known_db
  end
  for number in string.gmatch(db, '%d+') do
    local reply = redis.pcall('MOVE', prefix .. const.ANNOUNCEMENT .. 'nowhere', number)
    local refused = type(reply) == 'table' and reply.err
    if refused and not string.find(refused, 'out of range', 1, true) then
      local is_here = string.find(refused, 'objects are the same', 1, true)
      known_db = is_here and number or string.match(db, '%d+')
      return known_db
    end
  end
end

local guarded = false

-- Changes nothing, but fails if the client may not announce a deadline, or if its database cannot be found out. On a
-- full server SET must come first: after MOVE it would be allowed.
local function announce_guard()
  if not guarded then
    guarded = true
    try('SET', prefix .. const.ANNOUNCEMENT .. slot_tag, '', 'XX')
    try('DEL', prefix .. const.ANNOUNCEMENT .. slot_tag)
    if not (failure or actual_db(db)) then
      failure = { err = const.UNKNOWN_DATABASE }
    end
  end
end

-- Returns whether a deadline must be announced: there was none before, or the first one was later.
local function is_earlier(before, at)
  return not before or at < before
end

-- `before`: the first deadline before the change; index_was_set must get the same.
local function index_set(index, element, deadline, before)
  if is_earlier(before, deadline) then
    announce_guard()
  end
  return try('ZADD', index, ms(deadline), element)
end

-- `index_set` for many elements.
local function index_set_all(index, elements, deadline, before)
  if elements[1] and is_earlier(before, deadline) then
    announce_guard()
  end
  local at = ms(deadline)
  batches(1, #elements, function(from, to)
    local dated = {}
    for i = from, to do
      dated[#dated + 1] = at
      dated[#dated + 1] = elements[i]
    end
    try_all('ZADD', index, dated, 1)
  end)
end

-- Makes an element due, as evicted: see index_deadlines.
local function index_evict(index, element, now)
  announce_guard()
  return try('ZADD', index, string.format('%.1f', now - 1.5), element)
end

-- Returns how many of the elements had a deadline.
local function index_remove(index, ...)
  return try('ZREM', index, ...)
end

-- `index_remove` for `elements`, all or some of the first `count` elements of the index. `ends`: whether the index has
-- an entry that says when the key expires.
local function index_remove_first(index, elements, count, ends)
  if #elements == count and count > 0 then
    return try('ZREMRANGEBYRANK', index, ends and '1' or '0', ends and count or count - 1)
  end
  try_all('ZREM', index, elements, 1)
end

-- Returns the name of a key beside the index, in its slot, which the client may access only if it may access the index:
-- const.COUNTS counts how often elements were delivered (lib/counts.lua), in const.KEPT elements wait for TAKE, and
-- const.NONE never exists.
local function beside(index, kind)
  return prefix .. kind .. string.sub(index, #prefix + 1)
end

-- `index_remove` for elements that are removed, or lose their deadline: also deletes their counts.
local function index_clear(index, ...)
  if counting then
    local counts = beside(index, const.COUNTS)
    local removed = tonumber(try('ZREM', counts, ...))
    if removed ~= 0 and redis.call('EXISTS', counts) == 0 and not dry_run then
      redis.pcall('SREM', prefix .. const.OTHERS .. slot_tag, counts)
    end
  end
  return index_remove(index, ...)
end

-- `index_clear` for all of `elements` from number `first` on.
local function index_clear_all(index, elements, first)
  local cleared = 0
  batches(first, #elements, function(from, to)
    cleared = cleared + (tonumber(index_clear(index, unpack(elements, from, to))) or 0)
  end)
  return cleared
end

-- `index_clear` for one element that stays. Also returns whether the server has published an event for it.
local function index_persist(index, element)
  return index_clear(index, element), false
end

-- Changes nothing, but fails if the server is full, or if the client may not write to the index. It is for scripts
-- whose first write would otherwise be one that a full server allows.
local function index_guard(index)
  try('ZADD', index, 'XX', 'GT', 0, '')
end

-- Tells proxies that the key of the index needs attention at `first`, by a key that exists for a moment and whose name
-- is the message. Does so only within const.ANNOUNCED_MS from `now`, because proxies read the schedules that far ahead;
-- without `now`, always. The message is in the Cluster slot of the index.
local function announce(db, prefix, index, first, now)
  if failure or now and first - now >= const.ANNOUNCED_MS then
    return
  end
  local name = prefix .. const.ANNOUNCEMENT .. actual_db(db) .. ':' .. ms(first) .. ':'
    .. string.sub(index, #prefix + 1)
  try('SET', name, '')
  try('DEL', name)
end

-- Changes nothing, but fails if the client may not announce a swap. A full server allows it, as it allows SWAPDB: Redis
-- checks the memory only before the first write of a script, and DEL needs none.
local function announce_swap_guard(prefix)
  try('DEL', prefix .. const.ANNOUNCEMENT .. slot_tag)
  try('SET', prefix .. const.ANNOUNCEMENT .. slot_tag, '', 'XX')
end

-- Tells every proxy that two databases have changed places.
local function announce_swap(prefix, one, other)
  local name = prefix .. const.SWAP .. one .. ':' .. other
  try('SET', name, '')
  try('DEL', name)
end

local function clock_ms()
  local clock = redis.call('TIME')
  return clock[1] * 1000 + math.floor(clock[2] / 1000)
end

-- Returns when a key expires in Redis, nil if it does not, false if it does not exist.
local function key_ends(data)
  local left, before = redis.call('PTTL', data), nil
  if left == -2 then
    return false
  elseif left < 0 then
    return nil
  end
  -- Before 7.2 the clock goes on while a script runs; after a tick between the two commands the time would be too late.
  local after = clock_ms()
  while after ~= before do
    before, left = after, redis.call('PTTL', data)
    after = clock_ms()
  end
  return after + left
end

-- Before 7.2 the clock may tick between two commands that read it.
local function is_same_instant(one, other)
  return one and other and math.abs(one - other) <= 2 or not (one or other)
end

-- Returns whether a key is kept: `ends`, its expiry in Redis, is later than `noted`, the one in the index.
local function is_kept(ends, noted)
  return ends and noted and math.abs(ends - noted - const.KEPT_MS) <= const.KEPT_SLACK_MS
end

-- Returns whether the index has the expiry of its key, and the key is kept if there are rules.
local function expiry_is_noted(data, index)
  local ends, noted = key_ends(data), index_ends(index)
  return is_same_instant(ends, noted and ruled and noted + const.KEPT_MS or noted)
end

-- Returns when a kept key really expires; nil if it is not kept.
local function kept_until(data, index)
  local noted = index_ends(index)
  return noted and is_kept(key_ends(data), noted) and noted or nil
end

-- Returns how many ms a key has until it expires: of a key that is not kept, the reply of PTTL.
local function key_left(data, index, now)
  local ends = kept_until(data, index)
  return ends and math.max(ends - now, 0) or redis.call('PTTL', data)
end

local function key_expires_at(data, ends)
  try('PEXPIREAT', data, ms(ends))
end

-- Deletes the index of a key. A kept key gets its own expiry back; if that is past, Redis deletes the key.
local function index_drop(data, index, schedule)
  local ends = kept_until(data, index)
  if ends then
    key_expires_at(data, ends)
  end
  try('DEL', index)
  try('ZREM', schedule, data)
end

-- Returns a lower bound of the time when the key, or one of its elements, expires; nil without deadlines.
local function bound_of(first, ends)
  return first and ends and math.min(first, ends) or first
end

local function index_write_expiry(index, ends)
  if ends then
    try('ZADD', index, ms(-ends), EXPIRY)
  else
    try('ZREM', index, EXPIRY)
  end
end

-- Call it before a script relies on deadlines of `data`, or adds some. Deletes the index if its key has gone, or has
-- expired and been created again; otherwise writes to the index when the key expires, which somebody may have changed
-- without a proxy. A key that exists after the time in the index either had its expiry changed just before, or is a new
-- one. It counts as new, because an old element that does not expire does less harm than a new one that is lost.
-- Returns the first deadline, nil without one, and when the key expires, if it does.
local function index_follow(data, index, schedule, now)
  local first, noted = index_head(index)
  if not (first or noted) then
    return nil
  end
  local actual = key_ends(data)
  local kept = is_kept(actual, noted)
  local ends = kept and noted or actual
  local is_noted = is_same_instant(ends, noted)
  if not first or ends == false or (noted and noted < now and not is_noted) then
    index_drop(data, index, schedule)
    return nil
  elseif not is_noted then
    index_write_expiry(index, ends)
  end
  if ends and ends > now and ruled and not is_same_instant(actual, ends + const.KEPT_MS) then
    key_expires_at(data, ends + const.KEPT_MS)
  elseif kept and ends > now and not ruled then
    key_expires_at(data, ends)
  end
  return first, ends
end

-- Returns when a key needs attention: at `first`, its first deadline, or before `ends`, when it expires. The key is
-- checked 1000 and 100 ms before it expires, because somebody may have changed its expiry without a proxy.
local function attention_at(first, ends, now)
  if not ends then
    return first
  end
  for _, ahead in ipairs({ 1000, 100 }) do
    if ends - ahead > now then
      return math.min(first, ends - ahead)
    end
  end
  return math.min(first, ends)
end

-- Call it after elements of `data` got the deadline `at`; `before`: the first deadline, from index_follow.
local function index_was_set(db, prefix, data, index, schedule, now, before, at)
  if not is_earlier(before, at) then
    return
  end
  -- The first key of its slot is always announced, because proxies have a list of the slots with keys.
  local opens
  if before then
    try('ZADD', schedule, 'LT', ms(at), data)
  else
    local ends = key_ends(data)
    if ends then
      index_write_expiry(index, ends)
      if ruled then
        key_expires_at(data, ends + const.KEPT_MS)
      end
    end
    at = attention_at(at, ends, now)
    opens = slot_tag ~= '' and redis.pcall('ZCARD', schedule) == 0
    try('ZADD', schedule, ms(at), data)
  end
  announce(db, prefix, index, at, not opens and now)
end

-- Call it after as many elements as `cleared` lost their deadline: after the last one, the schedule entry is removed. A
-- dry run assumes that it was the last one.
local function index_was_cleared(data, index, schedule, cleared)
  if type(cleared) ~= 'number' or cleared == 0 then
    return
  end
  -- The score of EXPIRY is not read here, because scripts that pop get replies of RESP3, where scores are tables.
  local left = index_count(index)
  if (left == 1 or dry_run) and redis.call('ZSCORE', index, EXPIRY) then
    local ends = kept_until(data, index)
    if ends and ends < clock_ms() + const.SOON_MS and not dry_run then
      return -- the command still finds the key, although its end may have come: the reaper ends it
    end
    if ends then
      key_expires_at(data, ends)
    end
    try('ZREM', index, EXPIRY)
    left = 0
  end
  if left == 0 or dry_run then
    try('ZREM', schedule, data)
  end
end

-- Deletes data keys with their indexes: KEYS has `count` data keys from `first` on, then their indexes. `command`: DEL
-- or UNLINK. Returns how many data keys existed.
local function index_delete(command, schedule, first, count)
  local removed, last = 0, first + count - 1
  -- Removes nothing, because no client's key has that name; it fails if the client may not write to the schedule.
  try('ZREM', schedule, prefix)
  for from = first, last, const.UNPACK_MAX do
    local to = math.min(from + (const.UNPACK_MAX - 1), last)
    try(command, unpack(KEYS, from + count, to + count))
    try('ZREM', schedule, unpack(KEYS, from, to))
    removed = removed + (tonumber(try(command, unpack(KEYS, from, to))) or 0)
  end
  return removed
end

-- A write that a full server allows, and after which it refuses no command of the script.
local function index_write_when_full(index)
  try('DEL', beside(index, const.NONE))
end

-- Lets a key exist after it should expire, while elements that must be delivered before that remain.
local function index_outlives(data, index)
  try('PERSIST', data)
  index_write_expiry(index, nil)
end

-- Returns the time that EXPIRE, PEXPIRE, EXPIREAT or PEXPIREAT sets; nil if it is no integer.
local function expiry_asked_for(now, command, time)
  if not (time and string.find(time, '^-?%d+$')) then
    return nil
  end
  local at = tonumber(time) * (string.sub(command, 1, 1) == 'P' and 1 or 1000)
  return at + (string.find(command, 'AT$') and 0 or now)
end

-- Returns the words of one of these commands without its conditions, if `at` is a time before the expiry that a kept key
-- has in Redis, and not before its real one: there Redis would judge them wrongly. False if they do not hold. If Redis
-- refuses one, its error is in `failure`.
local function judged(index, noted, at, command, time, ...)
  local conditions, given = { ... }, {}
  if not (at and at >= noted and at <= noted + const.KEPT_MS) or #conditions == 0 then
    return { time, ... }
  end
  try(command, beside(index, const.NONE), time, ...)
  for _, word in ipairs(conditions) do
    given[string.upper(word)] = true
  end
  return not (given.NX or given.LT or given.GT and at == noted) and { time }
end

-- If one of these commands would delete the key at once, although elements that are due by then must be delivered first,
-- returns when the key expires, and the conditions that matter; else nil.
local function ends_at_once(first, now, at, time, ...)
  if not (ruled and first and at) then
    return nil
  end
  at = math.max(at, now)
  -- 5 ms, because the clock goes on until Redis executes the command.
  if at < first or at > now + 5 then
    return nil
  end
  local given, conditions = {}, {}
  for _, word in ipairs({ ... }) do
    given[string.upper(word)] = true
    conditions[#conditions + 1] = string.upper(word) ~= 'LT' and word or nil
  end
  if given.GT or given.LT and given.NX then
    return nil -- it does not, or Redis refuses it
  end
  return at, conditions
end

-- Changes the expiry of `data`, by a command of Redis and its arguments. Returns Redis's reply. An earlier expiry is
-- announced, so that the reaper checks the key in time; if the client may not do that, it checks the key later.
local function index_expire(db, prefix, data, index, schedule, now, command, ...)
  local first, noted = index_head(index)
  if noted and noted < now then
    first = index_follow(data, index, schedule, now)
    if first then
      return 0 -- a kept key that has ended, and is not reaped yet
    end
  end
  if dry_run then
    try('ZADD', index, 'XX', 'GT', 0, '')
    try('SET', prefix .. const.ANNOUNCEMENT .. slot_tag, '', 'XX')
    index_drop(data, index, schedule)
  end
  local at, words = expiry_asked_for(now, command, ...), { ... }
  local over, conditions = ends_at_once(first, now, at, ...)
  if over then
    try(command, beside(index, const.NONE), ...) -- Redis refuses some words that seem to be a number
    command, words = 'PEXPIREAT', { ms(now + const.KEPT_MS), unpack(conditions) }
  elseif noted and is_kept(key_ends(data), noted) then
    words = judged(index, noted, at, command, ...)
  end
  if not words then
    return failure or 0
  end
  -- After this write a full server refuses no command of the script.
  local reply = try(command, data, unpack(words))
  if first and reply == 1 then
    local ends = over or key_ends(data)
    if ends == false then
      index_drop(data, index, schedule)
    else
      index_write_expiry(index, ends)
      if ends and ruled then
        key_expires_at(data, ends + const.KEPT_MS)
      end
      local attention, place = attention_at(first, ends, now), tonumber(schedule_get(schedule, data)) or 0
      if attention < place then
        try('ZADD', schedule, ms(attention), data)
      end
      local is_sooner = ruled and ends and ends < (noted or math.huge)
      if (attention < place or is_sooner) and actual_db(db) then
        announce(db, prefix, index, attention, now)
      end
    end
  end
  return reply
end

-- Copies the index to another name, perhaps in another database.
local function index_copy(index, target_index, database)
  try('COPY', index, target_index, 'DB', database, 'REPLACE')
end

-- Moves the index to another database.
local function index_leave(data, index, schedule, database)
  try('MOVE', index, database)
  try('ZREM', schedule, data)
end

-- Call it after the index of `data` was moved or copied, unchanged, from another name or database.
local function index_arrived(db, prefix, data, index, schedule, attention)
  try('ZADD', schedule, attention, data)
  announce(db, prefix, index, tonumber(attention))
end

-- Call it before a key is moved or copied without its index, which has no deadlines: if the index has the expiry of a
-- kept key (index_was_cleared), the key gets its own expiry back.
local function index_release(data, index, schedule)
  if index_ends(index) then
    index_drop(data, index, schedule)
  end
end

-- Moves the index and the schedule entry from one data key to another, whose own index is deleted.
local function index_move(db, prefix, source, source_index, target, target_index, schedule)
  local first = index_first(source_index)
  if not first then
    index_release(source, source_index, schedule)
    index_drop(target, target_index, schedule)
    return
  end
  local attention = schedule_get(schedule, source) or ms(first)
  -- Every command that Redis may refuse is tried before anything is moved; the first write needs no memory.
  try('ZREM', schedule, prefix)
  index_guard(target_index)
  announce_guard()
  try('RENAME', source_index, target_index)
  try('ZREM', schedule, source)
  index_arrived(db, prefix, target, target_index, schedule, attention)
end

-- Returns the first deadline of `data`, or nil; when the key needs attention next; and bound_of.
local function index_attention(data, index, schedule, now)
  local first, ends = index_follow(data, index, schedule, now)
  return first, first and attention_at(first, ends, now), bound_of(first, ends)
end

-- Changes the schedule, or an index, without telling proxies. `entries`: [deadline, key or element, ...]; `over`: keys
-- or elements to remove.
local function entries_write(place, entries, over)
  try_all('ZREM', place, over, 1)
  try_all('ZADD', place, entries, 1)
end

-- Deletes a key of another type in the place of the schedule. Returns 1 if there was one, else 0.
local function schedule_make_room(schedule)
  local kind = redis.call('TYPE', schedule).ok
  if kind == 'none' or kind == 'zset' then
    return 0
  end
  return redis.call('DEL', schedule)
end
