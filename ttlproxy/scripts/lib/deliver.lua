-- Delivers elements that are past their deadline, by a rule of ONEXPIRE (core/expiry_actions.py), before they are
-- removed: at any time an element is in its key or at its destination.
-- NEEDS: try.lua clock.lua index.lua list.lua others.lua first_key all first_action data index
-- NEEDS: WORDS_OF_ACTION removers deliver actions_left passed_us
-- The number of elements that are delivered together, a page. No call may keep the server busy for long, so another
-- page is begun only if the call has taken less than MOST_US us, and `bytes_left` is above 0.
local PAGE, MOST_US = 50, 3000
local bytes_left = 1048576
local rule, kind

local index_name = {}
for i = first_key, first_key + all - 1 do
  index_name[KEYS[i]] = KEYS[i + all]
end

-- include counts
-- include json
-- include clear_stale
-- include destination
-- include outbox
-- A destination is { name, box }: `box` is its outbox, if it is in another slot than the key.
local function destination_at(dest, box)
  return { name = ARGV[dest], box = ARGV[box] ~= '' and ARGV[box] }
end

local function rule_at(number)
  local at = first_action + WORDS_OF_ACTION * (number - 1)
  local words = {}
  for word in string.gmatch(ARGV[at], '%S+') do
    words[#words + 1] = word
  end
  return {
    verb = words[1],
    payload = words[2] ~= '-' and words[2],
    most = tonumber(words[3]),
    trim = { unpack(words, 4) },
    dest = destination_at(at + 1, at + 3),
    rest = destination_at(at + 2, at + 4),
  }
end

local function all_by(command)
  return function(elements)
    return redis.call(command, data, unpack(elements))
  end
end

-- Each function returns the value of each element, '' if the type has no values; false if the element has gone, for
-- example by a pop.
local readers = { hash = all_by('HMGET'), zset = all_by('ZMSCORE') }

function readers.set(elements)
  local values = redis.call('SMISMEMBER', data, unpack(elements))
  for i, there in ipairs(values) do
    values[i] = there == 1 and ''
  end
  return values
end

-- Returns how often an element is delivered: in a list, once for each equal value, because they expire together.
local function copies_of(element)
  if kind ~= 'list' then
    return 1
  end
  looked_for[element] = looked_for[element] or #redis.call('LPOS', data, element, 'COUNT', 0)
  return looked_for[element]
end

function readers.list(elements)
  local values = {}
  look_for(elements, 1)
  for i, element in ipairs(elements) do
    values[i] = copies_of(element) > 0 and ''
  end
  return values
end

-- Returns the cost of delivering a text, in bytes. To write one byte that is not ASCII as JSON takes longer than to
-- copy a hundred bytes.
local function weight(text)
  return #text * (rule.payload == 'EVENT' and string.find(text, '[\128-\255]') and 100 or 1)
end

local function entry_of(element, value, due, why)
  bytes_left = bytes_left - weight(element) - weight(value)
  return {
    element = element,
    value = value,
    due = ms(due),
    why = why,
    copies = copies_of(element),
  }
end

-- Returns the elements that exist, as many as this call may deliver; adds those that do not to `gone`.
local function entries_of(elements, gone)
  local found, values = {}, readers[kind](elements)
  local deadlines, reasons = index_deadlines(index, elements)
  for i, element in ipairs(elements) do
    if bytes_left <= 0 then
      break
    elseif values[i] then
      found[#found + 1] = entry_of(element, values[i], deadlines[i], reasons[i])
    else
      gone[#gone + 1] = element
    end
  end
  return found
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

-- Each handler delivers entries; returns how many it delivered, and Redis's error if that is not all of them.
local handlers = {}

local function push(dest, entries)
  local values = {}
  for _, entry in ipairs(entries) do
    local payload = payload_of(entry)
    for _ = 1, entry.copies do
      values[#values + 1] = payload
    end
  end
  clear_stale(dest, values)
  local trouble
  batches(1, #values, function(from, to)
    local reply = redis.pcall(rule.verb, dest, unpack(values, from, to))
    trouble = trouble or type(reply) == 'table' and reply
  end)
  return trouble and 0 or #entries, trouble
end

handlers.LPUSH, handlers.RPUSH = push, push

-- Returns a handler that sends entries one by one, up to the first that Redis refuses.
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

local function xadd_words(dest, entry)
  local words = { 'XADD', dest, unpack(rule.trim) }
  words[#words + 1] = '*'
  for i, word in ipairs(described(entry)) do
    words[#words + 1] = NAMES[i]
    words[#words + 1] = word
  end
  return words
end

handlers.XADD = one_by_one(function(dest, entry)
  return redis.pcall(unpack(xadd_words(dest, entry)))
end)

local publish = one_by_one(function(channel, entry)
  return redis.pcall(rule.verb, channel, payload_of(entry))
end)

handlers.PUBLISH, handlers.SPUBLISH = publish, publish

handlers.KEEP = one_by_one(function(_, entry)
  others_add(beside(index, const.KEPT))
  return redis.pcall('RPUSH', beside(index, const.KEPT), entry.element, entry.value, entry.due)
end)

-- Returns the commands that deliver an entry: one XADD for each copy; one push for up to const.LONG_PAGE copies.
local function commands_for(dest, entry)
  local commands = {}
  if rule.verb == 'XADD' then
    for copy = 1, entry.copies do
      commands[copy] = xadd_words(dest, entry)
    end
    return commands
  end
  local payload = payload_of(entry)
  for done = 0, entry.copies - 1, const.LONG_PAGE do
    local words = { rule.verb, dest }
    for _ = 1, math.min(entry.copies - done, const.LONG_PAGE) do
      words[#words + 1] = payload
    end
    commands[#commands + 1] = words
  end
  return commands
end

local function post(to, entries)
  local commands = {}
  for _, entry in ipairs(entries) do
    for _, words in ipairs(commands_for(to.name, entry)) do
      commands[#commands + 1] = words
    end
  end
  local trouble = outbox_add(to.box, commands)
  return trouble and 0 or #entries, trouble
end

-- Returns the error if nothing can be delivered to a destination, else nil.
local function destination_error(to)
  if rule.verb == '@' then
    return { err = 'CROSSSLOT the destination of a rule is in another slot than the key' }
  elseif not handlers[rule.verb] or rule.payload and not payloads[rule.payload] then
    return { err = 'ERR the rule of ONEXPIRE cannot be read' }
  elseif to.box then
    return outbox_refusal(to.box)
  elseif TYPES[rule.verb] and to.name == data then
    return { err = 'WRONGTYPE the destination of a rule cannot be the key itself' }
  end
  return TYPES[rule.verb] and destination_refusal(rule.verb, to.name)
end

-- The commands that remove elements, tried on a key that does not exist: an element is not delivered if it may not be
-- removed. They are also the first write, after which a full server refuses no command of the script.
local OF_LIST = { { 'LREM', 0, '' }, { 'LTRIM', 0, -1 } }

local function removal_error()
  for _, words in ipairs(kind == 'list' and OF_LIST or { { removers[kind], '' } }) do
    local reply = redis.pcall(words[1], beside(index, const.NONE), unpack(words, 2))
    if type(reply) == 'table' and reply.err then
      return reply
    end
  end
end

-- Splits entries, in their order, into those for the destination, and those that were delivered MAX times already.
local function split_by_count(entries)
  if rule.most == 0 then
    return entries, {}
  end
  local deliverable, exhausted = {}, {}
  for _, entry in ipairs(entries) do
    entry.count = count_of(index, entry.element)
    local to = entry.count < rule.most and deliverable or exhausted
    to[#to + 1] = entry
  end
  return deliverable, exhausted
end

-- Delivers entries; adds their elements to `gone`, and calls `count` for each entry.
local function hand_on(to, entries, gone, count)
  local done, trouble = 0, nil
  if entries[1] and to.box then
    done, trouble = post(to, entries)
  elseif entries[1] then
    done, trouble = handlers[rule.verb](to.name, entries)
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
  count_forget(index, entry.element)
end

-- Delivers one page. Returns how many entries were delivered, how many of these were dead-lettered, and Redis's error.
local function deliver_page(elements, gone)
  local deliverable, exhausted = split_by_count(entries_of(elements, gone))
  local trouble = deliverable[1] and destination_error(rule.dest)
    or exhausted[1] and destination_error(rule.rest)
  if trouble then
    return 0, 0, trouble
  end
  local done, dead_lettered
  done, trouble = hand_on(rule.dest, deliverable, gone, count_one)
  if trouble then
    return done, 0, trouble
  end
  dead_lettered, trouble = hand_on(rule.rest, exhausted, gone, forget)
  return done + dead_lettered, dead_lettered, trouble
end

-- Returns the elements that may be removed now, Redis's error or nil, how many entries were delivered, and how many of
-- these were dead-lettered.
function deliver(type_, due, number)
  rule, kind = rule_at(number), type_
  local gone, fired, dead_lettered, at = {}, 0, 0, 1
  local trouble = removal_error() or rule.most > 0 and counts_refusal(index)
    or (rule.dest.box or rule.rest.box) and outbox_begin()
  -- The page of a list is all of `due`, because each page takes a walk along the list.
  local size = kind == 'list' and #due or PAGE
  while at <= #due and not trouble and actions_left > 0 do
    local page, done, dead = { unpack(due, at, math.min(at + size - 1, #due)) }, 0, 0
    done, dead, trouble = deliver_page(page, gone)
    fired, dead_lettered, at = fired + done, dead_lettered + dead, at + size
    actions_left = actions_left - #page
    if bytes_left <= 0 or passed_us() > MOST_US then
      actions_left = 0
    end
  end
  if rule.most > 0 and not trouble then
    counts_tidy(beside(index, const.COUNTS), now)
  end
  return gone, trouble, fired, dead_lettered
end
