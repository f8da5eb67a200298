-- Hands elements on that are past their deadline, as a rule says (actions.py), before they are
-- removed: an element is in its key or at its destination, for everybody and at any time.
-- include counts
-- include event
local PAGE = 50
-- How much more this call may hand on: no call may keep the server long.
local bytes_left = 1048576
local rule, kind

local index_name = {}
for i = first_key, first_key + all - 1 do
  index_name[KEYS[i]] = KEYS[i + all]
end

local function says(number)
  local at = first_action + 3 * (number - 1)
  local words = {}
  for word in string.gmatch(ARGV[at], '%S+') do
    words[#words + 1] = word
  end
  return {
    verb = words[1],
    payload = words[2] ~= '-' and words[2],
    most = tonumber(words[3]),
    trim = { unpack(words, 4) },
    dest = ARGV[at + 1],
    rest = ARGV[at + 2],
  }
end

local function all_by(command)
  return function(elements)
    return redis.call(command, data, unpack(elements))
  end
end

-- What each element holds, false where it is not there: somebody has popped it.
local readers = { hash = all_by('HMGET'), zset = all_by('ZMSCORE') }

function readers.set(elements)
  local values = redis.call('SMISMEMBER', data, unpack(elements))
  for i, there in ipairs(values) do
    values[i] = there == 1 and ''
  end
  return values
end

function readers.list(elements)
  local values = {}
  look_for(elements, 1)
  for i, element in ipairs(elements) do
    values[i] = has(element) == 1 and ''
  end
  return values
end

-- Of a list, whose equal values go together, each copy is handed on.
local function copies_of(element)
  if kind ~= 'list' then
    return 1
  end
  return looked_for[element] or #redis.call('LPOS', data, element, 'COUNT', 0)
end

local function entry_of(element, value, score)
  local due = math.floor(tonumber(score))
  bytes_left = bytes_left - #element - #value
  return {
    element = element,
    value = value,
    due = ms(due),
    -- What had to make room has half a millisecond more in its deadline.
    why = tonumber(score) > due and 'evicted' or 'expired',
    copies = copies_of(element),
  }
end

-- Those of the elements that are there, and how many of all have been looked at.
local function entries_of(elements)
  local found, seen, values, scores = {}, 0, nil, nil
  while seen < #elements and bytes_left > 0 do
    local at = seen % PAGE + 1
    if at == 1 then
      local page = { unpack(elements, seen + 1, math.min(seen + PAGE, #elements)) }
      values, scores = readers[kind](page), index_scores(index, page)
    end
    seen = seen + 1
    if values[at] then
      found[#found + 1] = entry_of(elements[seen], values[at], scores[at])
    end
  end
  return found, seen
end

local function described(entry)
  return { data, kind, entry.element, entry.value, entry.due, ms(now), entry.why }
end

local payloads = {}

function payloads.ELEMENT(entry)
  return entry.element
end

function payloads.VALUE(entry)
  return entry.value
end

function payloads.EVENT(entry)
  return json_of(described(entry))
end

local function payload_of(entry)
  return payloads[rule.payload or kind == 'hash' and 'VALUE' or 'ELEMENT'](entry)
end

-- What a consumer has taken from a list may have left its deadline there: it must not meet an equal
-- value that comes now.
local function clear_absent(list, values)
  local list_index = index_name[list]
  if redis.call('EXISTS', list_index) == 0 then
    return
  end
  local cleared = 0
  for _, value in ipairs(values) do
    if index_get(list_index, value) and not redis.call('LPOS', list, value) then
      cleared = cleared + (tonumber(index_remove(list_index, value)) or 0)
    end
  end
  index_was_cleared(list, list_index, schedule, cleared)
end

-- Each hands entries on, and gives how many, and Redis's error where that is not all.
local handlers = {}

local function push(dest, entries)
  local values = {}
  for _, entry in ipairs(entries) do
    local payload = payload_of(entry)
    for _ = 1, entry.copies do
      values[#values + 1] = payload
    end
  end
  clear_absent(dest, values)
  local trouble
  batches(1, #values, function(from, to)
    local reply = redis.pcall(rule.verb, dest, unpack(values, from, to))
    trouble = trouble or type(reply) == 'table' and reply
  end)
  return trouble and 0 or #entries, trouble
end

handlers.LPUSH, handlers.RPUSH = push, push

-- One by one, up to the first that Redis refuses.
local function one_by_one(send)
  return function(dest, entries)
    for done, entry in ipairs(entries) do
      for _ = 1, entry.copies do
        local reply = send(dest, entry)
        if type(reply) == 'table' and reply.err then
          return done - 1, reply
        end
      end
    end
    return #entries
  end
end

local NAMES = { 'key', 'type', 'element', 'value', 'due', 'fired', 'why' }

handlers.XADD = one_by_one(function(dest, entry)
  local words = { dest, unpack(rule.trim) }
  words[#words + 1] = '*'
  for i, word in ipairs(described(entry)) do
    words[#words + 1] = NAMES[i]
    words[#words + 1] = word
  end
  return redis.pcall('XADD', unpack(words))
end)

local publish = one_by_one(function(channel, entry)
  return redis.pcall(rule.verb, channel, payload_of(entry))
end)

handlers.PUBLISH, handlers.SPUBLISH = publish, publish

handlers.KEEP = one_by_one(function(_, entry)
  local reply = redis.pcall('SADD', prefix .. 'keeping', data)
  if type(reply) == 'table' then
    return reply
  end
  return redis.pcall('RPUSH', kept_name(index), entry.element, entry.value, entry.due)
end)

local TYPES = { LPUSH = 'list', RPUSH = 'list', XADD = 'stream' }

-- Why nothing can be put there.
local function misfit(dest)
  local wanted = TYPES[rule.verb]
  if not wanted then
    return
  elseif dest == data or string.sub(dest, 1, #prefix) == prefix then
    return { err = 'WRONGTYPE the destination of a rule cannot be ' .. (dest == data
      and 'the key itself' or 'an internal key') }
  end
  local there = redis.call('TYPE', dest).ok
  if there ~= 'none' and there ~= wanted then
    return { err = 'WRONGTYPE the destination of a rule is a ' .. there .. ', and no ' .. wanted }
  end
end

-- The same commands, on a key that is not there: what may not be removed is not handed on. It is also
-- the write after which a full server refuses a script nothing.
local PROBES = {
  hash = { { 'HDEL', '' } },
  set = { { 'SREM', '' } },
  zset = { { 'ZREM', '' } },
  list = { { 'LREM', 0, '' }, { 'LTRIM', 0, -1 } },
}

local function forbidden()
  for _, words in ipairs(PROBES[kind]) do
    local reply = redis.pcall(words[1], index_nowhere(index, prefix), unpack(words, 2))
    if type(reply) == 'table' and reply.err then
      return reply
    end
  end
end

-- The entries for each destination, in their order.
local function sorted(entries)
  if rule.most == 0 then
    return entries, {}
  end
  local again, spent = {}, {}
  for _, entry in ipairs(entries) do
    entry.count = count_of(index, entry.element)
    local to = entry.count < rule.most and again or spent
    to[#to + 1] = entry
  end
  return again, spent
end

-- Hands entries on; adds those that were to `gone`.
local function hand_on(dest, entries, gone, count)
  local done, trouble = 0, entries[1] and misfit(dest)
  if entries[1] and not trouble then
    done, trouble = handlers[rule.verb](dest, entries)
  end
  for i = 1, done do
    local entry = entries[i]
    gone[#gone + 1] = entry.element
    count(entry)
  end
  return done, trouble
end

local function count_one(entry)
  if rule.most > 0 then
    count_set(index, entry.element, entry.count + 1, now)
  end
end

local function forget(entry)
  redis.pcall('ZREM', COUNTS, count_name(index, entry.element))
end

-- Gives the elements that may be removed now, what Redis refuses, and how many were handed on, and how
-- many of those too often.
function fire(type_, due, number)
  rule, kind = says(number), type_
  local entries, seen = entries_of(due)
  fires_left = fires_left - seen
  local gone, there = {}, {}
  for _, entry in ipairs(entries) do
    there[entry.element] = true
  end
  for i = 1, seen do
    if not there[due[i]] then
      gone[#gone + 1] = due[i]
    end
  end
  local again, spent = sorted(entries)
  local trouble = forbidden() or again[1] and misfit(rule.dest) or spent[1] and misfit(rule.rest)
  if trouble then
    return gone, trouble, 0, 0
  end
  local done, buried
  done, trouble = hand_on(rule.dest, again, gone, count_one)
  buried = 0
  if not trouble then
    buried, trouble = hand_on(rule.rest, spent, gone, forget)
  end
  if rule.most > 0 then
    count_tidy(now)
  end
  return gone, trouble, done + buried, buried
end
