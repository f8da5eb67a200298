-- A large index: a hash, where one zset would cost 126 bytes an element (a skiplist) instead of 32. Its
-- elements stand in packs, MessagePack arrays of [element, deadline, ...] in fields that are called by
-- a number; linear hashing says in which, so that a pack is split, or two become one, at a time. Above
-- the packs stand three levels of nodes, arrays of the first deadlines of what is below, in fields that
-- are called by the level and a number. The field '' is the head: [size, packs, first, seed].
local LOAD, FANOUT, LEVELS = 12, 32, { 'a', 'b', 'c' }
local NEVER = 2 ^ 53
local heads = {}

-- The head of an index; false where it is no hash of ours.
local function packed(index)
  if heads[index] == nil then
    local head = redis.call('TYPE', index).ok == 'hash' and redis.call('HGET', index, '')
    heads[index] = false
    if head then
      local size, packs, first, seed = cmsgpack.unpack(head)
      heads[index] = { size = size, packs = packs, first = first, seed = seed, span = 1 }
      while heads[index].span * 2 <= packs do
        heads[index].span = heads[index].span * 2
      end
    end
  end
  return heads[index]
end

local function least_of(pack)
  local least = NEVER
  for i = 2, #pack, 2 do
    if pack[i] < least then
      least = pack[i]
    end
  end
  return least
end

local function number_of(head, element)
  local hash = tonumber(string.sub(redis.sha1hex(head.seed .. element), 1, 8), 16)
  local number = hash % (2 * head.span)
  return number < head.packs and number or number - head.span
end

-- What stands in these fields, in their order: {} where nothing does.
local function read_fields(index, fields)
  local found = {}
  batches(1, #fields, function(from, to)
    for _, value in ipairs(redis.call('HMGET', index, unpack(fields, from, to))) do
      found[#found + 1] = value and cmsgpack.unpack(value) or {}
    end
  end)
  return found
end

-- Packs that are about to be changed: each stands in `open` by its number.
local function open_pack(index, open, number)
  local pack = open[number]
  if not pack then
    local value = redis.call('HGET', index, number)
    pack = value and cmsgpack.unpack(value) or {}
    open[number] = pack
    open.before[number] = least_of(pack)
  end
  return pack
end

local function place_in(pack, element)
  for i = 1, #pack, 2 do
    if pack[i] == element then
      return i
    end
  end
end

-- The last two entries of a pack change places with those at `i`, and go.
local function take_out(pack, i)
  local last = #pack
  pack[i], pack[i + 1] = pack[last - 1], pack[last]
  pack[last], pack[last - 1] = nil, nil
end

local function split_pack(index, head, open)
  local from, to = head.packs - head.span, head.packs
  local old = open_pack(index, open, from)
  local one, other = {}, open_pack(index, open, to)
  head.packs = head.packs + 1
  if head.packs == 2 * head.span then
    head.span = head.packs
  end
  for i = 1, #old, 2 do
    local pack = number_of(head, old[i]) == to and other or one
    pack[#pack + 1] = old[i]
    pack[#pack + 1] = old[i + 1]
  end
  open[from] = one
end

local function merge_packs(index, head, open)
  head.packs = head.packs - 1
  if head.packs < head.span then
    head.span = head.span / 2
  end
  local old = open_pack(index, open, head.packs)
  local pack = open_pack(index, open, head.packs - head.span)
  for _, value in ipairs(old) do
    pack[#pack + 1] = value
  end
  open[head.packs] = {}
end

-- Enters `changed`, number -> first deadline, into the nodes of a level; gives the same for these.
local function enter_firsts(index, level, changed, put)
  local nodes, befores, following = {}, {}, {}
  for number, first in pairs(changed) do
    local at = level == 'c' and 0 or math.floor(number / FANOUT)
    local node = nodes[at]
    if not node then
      node = read_fields(index, { level .. at })[1]
      nodes[at], befores[at] = node, math.min(NEVER, unpack(node))
    end
    for i = #node + 1, number - at * FANOUT do
      node[i] = NEVER
    end
    node[number - at * FANOUT + 1] = first
  end
  for at, node in pairs(nodes) do
    local first = math.min(NEVER, unpack(node))
    put(level .. at, first ~= NEVER and node)
    if first ~= befores[at] then
      following[at] = first
    end
  end
  return following
end

-- Writes down the packs that were opened, what has changed above them, and the head.
local function write_packs(index, head, open)
  while head.size > LOAD * head.packs do
    split_pack(index, head, open)
  end
  while head.packs > 1 and head.size < LOAD / 2 * head.packs do
    merge_packs(index, head, open)
  end
  if head.size == 0 then
    heads[index] = nil
    return try('DEL', index)
  end
  local values, gone, changed = {}, {}, {}

  local function put(field, value)
    if value then
      values[#values + 1] = field
      values[#values + 1] = cmsgpack.pack(value)
    else
      gone[#gone + 1] = field
    end
  end

  for number, before in pairs(open.before) do
    local first = least_of(open[number])
    put(number, first ~= NEVER and open[number])
    if first ~= before then
      changed[number] = first
    end
  end
  for _, level in ipairs(LEVELS) do
    changed = enter_firsts(index, level, changed, put)
  end
  head.first = changed[0] or head.first
  values[#values + 1] = ''
  values[#values + 1] = cmsgpack.pack(head.size, head.packs, head.first, head.seed)
  batches(1, #gone, function(from, to)
    try('HDEL', index, unpack(gone, from, to))
  end)
  batches(1, #values, function(from, to)
    try('HSET', index, unpack(values, from, to))
  end)
end

local function packed_get(index, head, element)
  local pack = open_pack(index, { before = {} }, number_of(head, element))
  local at = place_in(pack, element)
  return at and pack[at + 1]
end

local function put_in(index, head, open, element, deadline)
  local pack = open_pack(index, open, number_of(head, element))
  local at = place_in(pack, element)
  if not at then
    head.size = head.size + 1
    at = #pack + 1
  end
  pack[at], pack[at + 1] = element, deadline
end

local function packed_set(index, head, element, deadline)
  local open = { before = {} }
  put_in(index, head, open, element, deadline)
  write_packs(index, head, open)
end

local function packed_clear(index, head, elements)
  local open, cleared = { before = {} }, 0
  for _, element in ipairs(elements) do
    local pack = open_pack(index, open, number_of(head, element))
    local at = place_in(pack, element)
    if at then
      cleared = cleared + 1
      take_out(pack, at)
    end
  end
  if cleared > 0 then
    head.size = head.size - cleared
    -- A full server lets a script write that has written, and DEL needs no memory.
    try('DEL', index_nowhere(index, prefix))
    write_packs(index, head, open)
  end
  return failure or cleared
end

-- The numbers of packs: those that choose(candidates) leaves of each level, from above; a candidate is
-- [number, first deadline].
local function find_packs(index, choose)
  local numbers = { 0 }
  for level = #LEVELS, 1, -1 do
    local fields, candidates = {}, {}
    for i, number in ipairs(numbers) do
      fields[i] = LEVELS[level] .. number
    end
    for i, node in ipairs(read_fields(index, fields)) do
      for slot, first in ipairs(node) do
        candidates[#candidates + 1] = { numbers[i] * FANOUT + slot - 1, first }
      end
    end
    numbers = choose(candidates)
  end
  return numbers
end

-- The numbers of at most `limit` packs, -1 for all, each of which has something due.
local function due_packs(index, now, limit)
  return find_packs(index, function(candidates)
    local chosen = {}
    for _, candidate in ipairs(candidates) do
      if candidate[2] < now and #chosen ~= limit then
        chosen[#chosen + 1] = candidate[1]
      end
    end
    return chosen
  end)
end

local function packed_due(index, now, limit)
  local due = {}
  for _, pack in ipairs(read_fields(index, due_packs(index, now, limit))) do
    for i = 1, #pack, 2 do
      if pack[i + 1] < now and #due ~= limit then
        due[#due + 1] = pack[i]
      end
    end
  end
  return due
end

-- As packed_due, and takes them out.
local function packed_take_due(index, head, now, limit)
  local due, open = {}, { before = {} }
  local numbers = due_packs(index, now, limit)
  for n, pack in ipairs(read_fields(index, numbers)) do
    open[numbers[n]], open.before[numbers[n]] = pack, least_of(pack)
    for i = #pack - 1, 1, -2 do
      if pack[i + 1] < now and #due ~= limit then
        due[#due + 1] = pack[i]
        take_out(pack, i)
      end
    end
  end
  if due[1] then
    head.size = head.size - #due
    try('DEL', index_nowhere(index, prefix))
    write_packs(index, head, open)
  end
  return due
end

local function by_deadline(one, other)
  return one[2] < other[2] or one[2] == other[2] and one[1] < other[1]
end

-- The `count` entries with the earliest deadlines, as [element, deadline], the soonest first. They stand
-- in the `count` packs that have the earliest first deadlines, and these below as many such nodes.
local function packed_soonest(index, count)
  local function soonest(candidates)
    table.sort(candidates, by_deadline)
    return candidates
  end

  local numbers = find_packs(index, function(candidates)
    local chosen = {}
    for i, candidate in ipairs(soonest(candidates)) do
      if i <= count and candidate[2] ~= NEVER then
        chosen[i] = candidate[1]
      end
    end
    return chosen
  end)
  local entries = {}
  for _, pack in ipairs(read_fields(index, numbers)) do
    for i = 1, #pack, 2 do
      entries[#entries + 1] = { pack[i], pack[i + 1] }
    end
  end
  return soonest(entries)
end
