-- Removes elements past their deadline, at most `limit`; of a long list more, which costs no more. The
-- only script that deletes for being due, whoever asks for it.
-- KEYS: data index schedule
-- ARGV: db limit
-- RESULT: [now in ms, removed, first deadline left in ms or -1, entries without an element: 1 or 0, type]
-- include try
-- include clock
-- include index
-- include finders
-- include events
local function all_by(command)
  return function(elements)
    local removed = 0
    batches(1, #elements, function(from, to)
      removed = removed + (tonumber(try(command, data, unpack(elements, from, to))) or 0)
    end)
    return removed
  end
end

local removers = {
  hash = all_by('HDEL'),
  set = all_by('SREM'),
  zset = all_by('ZREM'),
  list = remove_all,
}
local lengths = { hash = 'HLEN', set = 'SCARD', zset = 'ZCARD', list = 'LLEN' }
local kind = redis.call('TYPE', data).ok
if not removers[kind] then
  index_drop(data, index, schedule)
  return failure or { now, 0, -1, 0, kind }
end
if kind == 'list' then
  limit = math.max(limit, math.floor(redis.call('LLEN', data) / 32))
end
local due = index_due(index, now, limit)
if is_no_index(due) then
  index_drop(data, index, schedule)
  return failure or { now, 0, -1, 0, kind }
elseif due.err then
  return due
end

-- Redis says hexpired of fields that are there, and of no others.
local letter, expired = string.sub(kind, 1, 1), {}
if wants(letter) then
  look_for(kind == 'list' and due or {}, 1)
  for _, element in ipairs(due) do
    if (finders[kind](element) or 0) ~= 0 then
      expired[#expired + 1] = element
    end
  end
  notify(letter, 'expired', db, data, expired)
end

-- Unlike elsewhere the elements go first: where that is refused, they keep their deadlines.
local removed = removers[kind](due)
batches(1, #due, function(from, to)
  index_clear(index, unpack(due, from, to))
end)
if failure then
  return failure
end
local first = index_reschedule(data, index, schedule, now)
local ghosts = redis.call('ZCARD', index) > redis.call(lengths[kind], data)
return failure or { now, removed, first or -1, ghosts and 1 or 0, kind }
