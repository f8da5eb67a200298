-- Removes elements past their deadline, at most `limit`. The only script that deletes for being due,
-- whoever asks for it.
-- KEYS: data index schedule
-- ARGV: limit
-- RESULT: [now in ms, removed, first deadline left in ms or -1, entries without an element: 1 or 0, type]
-- include try
-- include clock
-- include index
local removers = { hash = 'HDEL', set = 'SREM', zset = 'ZREM' }
local lengths = { hash = 'HLEN', set = 'SCARD', zset = 'ZCARD' }
local kind = redis.call('TYPE', data).ok
if not removers[kind] then
  index_drop(data, index, schedule)
  return failure or { now, 0, -1, 0, kind }
end
local due = index_due(index, now, limit)
local removed = 0
batches(1, #due, function(from, to)
  removed = removed + redis.call(removers[kind], data, unpack(due, from, to))
  redis.call('ZREM', index, unpack(due, from, to))
end)
local first = index_reschedule(data, index, schedule, now)
local ghosts = redis.call('ZCARD', index) > redis.call(lengths[kind], data)
return failure or { now, removed, first or -1, ghosts and 1 or 0, kind }
