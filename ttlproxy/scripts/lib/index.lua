-- The index of a data key (element -> deadline in ms), and the schedule (data key -> when it needs
-- attention). No other file knows how they are laid out, except for those that are listed, with reasons, in
-- tests/core/test_script_pieces.py.
-- NEEDS: try.lua db
-- GIVES: ms index_get index_deadlines index_first index_count index_may_have_entries index_kind
-- GIVES: index_left index_scan index_page index_due is_no_index index_elements index_sample index_size index_due_count schedule_get
-- GIVES: schedule_due_count schedule_some actual_db announce_guard index_set index_set_all index_evict
-- GIVES: index_remove index_remove_first counts_name index_clear index_persist index_guard kept_name
-- GIVES: absent_key announce announce_swap_guard announce_swap index_was_set index_was_cleared
-- GIVES: index_drop index_delete index_lasts index_expire index_copy index_leave index_arrived index_move
-- GIVES: index_write_when_full index_attention entries_write schedule_make_room

-- As text, all digits of it: Lua by itself prints 14.
local function ms(number)
  return string.format('%.0f', number)
end

local function index_get(index, element)
  local score = redis.call('ZSCORE', index, element)
  return score and tonumber(score)
end

-- For elements that have a deadline: the deadlines, and why each element goes. A score that ends in .5
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

local function index_first(index)
  -- As text, because a conversion of a number costs 0.2 us.
  local head = redis.call('ZRANGE', index, '0', '0', 'WITHSCORES')
  return head[2] and tonumber(head[2])
end

-- How many entries an index has, or the schedule; 0 if something else is in its place.
local function index_count(place)
  return tonumber(redis.pcall('ZCARD', place)) or 0
end

-- Whether an index, or the schedule, may have entries: also if something else is in its place, and if Redis
-- does not say it.
local function index_may_have_entries(place)
  return redis.pcall('ZCARD', place) ~= 0
end

-- The type of what stands in the place of an index; 'zset' for an index.
local function index_kind(index)
  return redis.call('TYPE', index).ok
end

-- How many ms the index has left itself, as PTTL says it.
local function index_left(index)
  return redis.call('PTTL', index)
end

-- [the next cursor, [element, deadline, ...]], or Redis's error.
local function index_scan(index, cursor, count)
  return redis.pcall('ZSCAN', index, cursor, 'COUNT', count)
end

-- [element, deadline, ...], the earliest first, or Redis's error, as for an offset that is no number.
local function index_page(index, offset, count)
  return redis.pcall('ZRANGEBYSCORE', index, '-inf', '+inf', 'WITHSCORES', 'LIMIT', offset, count)
end

-- Elements past their deadline: `deadline < now`, as for Redis's keys and hash fields. Redis's error if
-- something else stands in the place of the index.
local function index_due(index, now, limit)
  return redis.pcall('ZRANGEBYSCORE', index, '-inf', '(' .. ms(now), 'LIMIT', '0', limit)
end

-- Whether this is Redis's error because something else stands in the place of an index. Callers drop
-- it, because otherwise each reap or sweep would fail.
local function is_no_index(reply)
  return reply.err and string.find(reply.err, 'WRONGTYPE', 1, true)
end

-- Elements in the order of their deadlines: all, or those from rank `from` to rank `to`.
local function index_elements(index, from, to)
  return redis.call('ZRANGE', index, from or 0, to or -1)
end

-- Some elements, each at most once, in no order.
local function index_sample(index, count)
  return redis.call('ZRANDMEMBER', index, count)
end

-- How many elements have a deadline.
local function index_size(index)
  return redis.call('ZCARD', index)
end

-- How many elements are past their deadline at an instant; 0 if something else is in the index's place.
local function index_due_count(index, at)
  return tonumber(redis.pcall('ZCOUNT', index, '-inf', '(' .. ms(at))) or 0
end

-- When a key needs attention, as text; false if it is not in the schedule.
local function schedule_get(schedule, data)
  return redis.call('ZSCORE', schedule, data)
end

-- How many keys need attention at an instant.
local function schedule_due_count(schedule, at)
  return redis.call('ZCOUNT', schedule, '-inf', '(' .. ms(at))
end

-- So many keys of the schedule, picked at random.
local function schedule_some(schedule, count)
  return redis.call('ZRANDMEMBER', schedule, count)
end

local known_db

-- The database that this connection is in; nil if it is none of those that the session believes in. A
-- session does not know whether a SELECT succeeded, so it says "?3,0" for all that it may be in, the latest
-- first. A MOVE to the same database is an error, which shows the right one. If the client may not call
-- MOVE, the first is believed.
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

-- Changes nothing, but is refused if the client may not announce a deadline, or if nobody can tell its
-- database. On a full server SET must come first: after MOVE it would be allowed.
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

-- Whether a deadline must be announced: it is earlier than the first one before it, if there was one.
local function is_earlier(before, at)
  return not before or at < before
end

-- `before`: what index_first returned before; index_was_set must get the same.
local function index_set(index, element, deadline, before)
  if is_earlier(before, deadline) then
    announce_guard()
  end
  return try('ZADD', index, ms(deadline), element)
end

-- The same for many elements.
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
    batches(1, #dated, function(first, last)
      try('ZADD', index, unpack(dated, first, last))
    end)
  end)
end

-- An element must make room: see index_deadlines.
local function index_evict(index, element, now)
  announce_guard()
  return try('ZADD', index, string.format('%.1f', now - 1.5), element)
end

-- Returns how many of the elements had a deadline.
local function index_remove(index, ...)
  return try('ZREM', index, ...)
end

-- The same for `elements`, which are all or some of the first `count` of the index.
local function index_remove_first(index, elements, count)
  if #elements == count and count > 0 then
    return try('ZREMRANGEBYRANK', index, '0', count - 1)
  end
  batches(1, #elements, function(from, to)
    index_remove(index, unpack(elements, from, to))
  end)
end

-- The key that counts how often elements were handed on (lib/counts.lua), in the slot of the index.
local function counts_name(index)
  return prefix .. const.COUNTS .. string.sub(index, #prefix + 1)
end

-- As index_remove, for elements that end, or lose their deadline: their counts begin again.
local function index_clear(index, ...)
  if counting then
    local counts = counts_name(index)
    local removed = tonumber(try('ZREM', counts, ...))
    if removed ~= 0 and redis.call('EXISTS', counts) == 0 and not dry_run then
      redis.pcall('SREM', prefix .. const.OTHERS .. slot_tag, counts)
    end
  end
  return index_remove(index, ...)
end

-- The same for one element that stays. Also returns whether the server has published an event for it.
local function index_persist(index, element)
  return index_clear(index, element), false
end

-- Changes nothing, but is refused if the server is full or the client has no right to the index. It is
-- for scripts whose first write would else be one that a full server allows.
local function index_guard(index)
  try('ZADD', index, 'XX', 'GT', 0, '')
end

-- The key where elements wait for TAKE, in the slot of the index.
local function kept_name(index)
  return prefix .. const.KEPT .. string.sub(index, #prefix + 1)
end

-- The name of a key that never exists, in the slot of the index. Clients that may not touch the key may
-- not touch this name either.
local function absent_key(index, prefix)
  return prefix .. const.NONE .. string.sub(index, #prefix + 1)
end

-- Ends a claim of the index's key, if there are proxies that look keys up (link/knowledge/claims.py), and tells
-- these that the first deadline is another one. If the client has no right to, the claim ends by itself.
local function unclaim(db, prefix, index, tells)
  local mark = string.sub(db, -1)
  if mark == const.CLAIMS then
    redis.pcall('ZREM', prefix .. const.CLAIMED, index)
  end
  if tells and (mark == const.CLAIMS or mark == const.RESERVES) then
    local claim = prefix .. const.CLAIM .. string.sub(index, #prefix + 1)
    redis.pcall('SET', claim, '')
    redis.pcall('DEL', claim)
  end
end

-- Tells every proxy that the first deadline of the index's key is now `first`, by a key that exists
-- for a moment and whose name is the message. It is in the Cluster slot of the index.
local function announce(db, prefix, index, first)
  if failure then
    return
  end
  unclaim(db, prefix, index, true)
  local name = prefix .. const.ANNOUNCEMENT .. actual_db(db) .. ':' .. ms(first) .. ':'
    .. string.sub(index, #prefix + 1)
  try('SET', name, '')
  try('DEL', name)
end

-- Changes nothing, but is refused if the client may not announce a swap. A full server allows it, as
-- it allows SWAPDB: Redis asks for memory only before the first write of a script, and DEL needs none.
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

-- The index must not expire before its key. It may have an old expiry: that of a former key, which a
-- script or a pop has emptied and nobody has swept yet, or one that a script has changed on the key.
-- `wanted` is the PTTL of `data`, if known.
local function index_must_last(data, index, wanted)
  local left = redis.call('PTTL', index)
  if left < 0 then
    return
  end
  wanted = wanted or redis.call('PTTL', data)
  if wanted < 0 then
    try('PERSIST', index)
  elseif wanted > left + 1 then -- before 7.0 the clock may tick between the two
    try('PEXPIRE', index, wanted)
  end
end

-- Call it after elements of `data` got the deadline `at`; `before`: what index_first returned before.
local function index_was_set(db, prefix, data, index, schedule, now, before, at)
  if before then
    index_must_last(data, index)
  end
  if not is_earlier(before, at) then
    unclaim(db, prefix, index)
    return
  end
  if before then
    try('ZADD', schedule, 'LT', ms(at), data)
  else
    -- A new index carries the key-level expiry of its data.
    local attention, left = at, redis.call('PTTL', data)
    if left >= 0 then
      -- In its last millisecond the key still exists; PEXPIRE 0 would drop the index before it.
      try('PEXPIRE', index, math.max(left, 1))
      attention = math.min(at, now + left)
    end
    try('ZADD', schedule, ms(attention), data)
  end
  announce(db, prefix, index, at)
end

-- Call it after `cleared` elements lost their deadline: the schedule entry goes with the last one. A dry
-- run assumes that it was the last one.
local function index_was_cleared(data, index, schedule, cleared)
  local any = type(cleared) == 'number' and cleared > 0
  if any and (redis.call('EXISTS', index) == 0 or dry_run) then
    try('ZREM', schedule, data)
  end
end

local function index_drop(data, index, schedule)
  try('DEL', index)
  try('ZREM', schedule, data)
end

-- Deletes data keys with their indexes: in KEYS from `first` on are so many data keys, then the indexes.
-- `command`: DEL or UNLINK. Returns how many data keys there were.
local function index_delete(command, schedule, first, count)
  local removed, last = 0, first + count - 1
  -- Removes nothing, because no client's key has that name; it tells whether the client may.
  try('ZREM', schedule, prefix)
  for from = first, last, const.UNPACK_MAX do
    local to = math.min(from + (const.UNPACK_MAX - 1), last)
    try(command, unpack(KEYS, from + count, to + count))
    try('ZREM', schedule, unpack(KEYS, from, to))
    removed = removed + (tonumber(try(command, unpack(KEYS, from, to))) or 0)
  end
  return removed
end

-- Takes the key-level expiry from the index.
local function index_lasts(index)
  try('PERSIST', index)
end

-- Gives `data` and its index a key-level expiry, by a command of Redis and its arguments. `at`: the instant,
-- if it is known. Returns Redis's reply.
local function index_expire(data, index, schedule, now, at, command, ...)
  if redis.call('EXISTS', data) == 0 then
    -- Of a former key, and not swept yet. Without it a sweep would not find the schedule entry.
    try('DEL', index)
    try('ZREM', schedule, data)
  else
    try(command, index, ...)
  end
  if failure then
    return failure
  end
  local reply = try(command, data, ...)
  if reply == 1 and at then
    if at <= now then
      try('ZREM', schedule, data)
    else
      try('ZADD', schedule, 'XX', 'LT', ms(at), data)
    end
  end
  return reply
end

-- Copies the index, with its expiry, to another name, perhaps in another database.
local function index_copy(index, target_index, database)
  try('COPY', index, target_index, 'DB', database, 'REPLACE')
end

-- Moves the index, with its expiry, to another database.
local function index_leave(data, index, schedule, database)
  try('MOVE', index, database)
  try('ZREM', schedule, data)
end

-- Call it after the index of `data` came unchanged from another name or database.
local function index_arrived(db, prefix, data, index, schedule, attention, first)
  try('ZADD', schedule, attention, data)
  announce(db, prefix, index, first)
end

-- Moves the index, with its expiry, and the schedule entry from one data key to another, whose own
-- index is dropped.
local function index_move(db, prefix, source, source_index, target, target_index, schedule)
  local first = index_first(source_index)
  if not first then
    index_drop(target, target_index, schedule)
    return
  end
  local attention = schedule_get(schedule, source) or ms(first)
  -- All that Redis may refuse is tried before anything is moved; the first write needs no memory.
  try('ZREM', schedule, prefix)
  index_guard(target_index)
  announce_guard()
  try('RENAME', source_index, target_index)
  try('ZREM', schedule, source)
  index_arrived(db, prefix, target, target_index, schedule, attention, first)
end

-- A write that a full server allows, and after which it refuses the script nothing.
local function index_write_when_full(index, prefix)
  try('DEL', absent_key(index, prefix))
end

-- The first deadline of `data`, or nil, and when it needs attention next.
local function index_attention(data, index, now)
  local first = index_first(index)
  if not first then
    return nil
  end
  local left = redis.call('PTTL', data)
  index_must_last(data, index, left)
  return first, left >= 0 and math.min(first, now + left) or first
end

-- Changes the schedule, or an index if no proxy need know. `entries`: [deadline, key or element, ...];
-- `over`: keys or elements that leave.
local function entries_write(place, entries, over)
  batches(1, #over, function(from, to)
    try('ZREM', place, unpack(over, from, to))
  end)
  batches(1, #entries, function(from, to)
    try('ZADD', place, unpack(entries, from, to))
  end)
end

-- Removes what stands in the place of the schedule and is none. Returns 1 if it did.
local function schedule_make_room(schedule)
  local kind = redis.call('TYPE', schedule).ok
  if kind == 'none' or kind == 'zset' then
    return 0
  end
  return redis.call('DEL', schedule)
end
