-- Drops index entries whose element is gone, one page of them.
-- KEYS: data index schedule
-- ARGV: cursor count
-- RESULT: [the next cursor, 0 at the end; dropped]
-- include try
-- include index
local finders = { hash = 'HEXISTS', set = 'SISMEMBER', zset = 'ZSCORE' }
local find = finders[redis.call('TYPE', data).ok]
if not find then
  index_drop(data, index, schedule)
  return failure or { '0', 0 }
end
local page = redis.call('ZSCAN', index, cursor, 'COUNT', count)
local dropped = 0
for i = 1, #page[2], 2 do
  local element = page[2][i]
  local found = redis.call(find, data, element)
  if not found or found == 0 then
    dropped = dropped + redis.call('ZREM', index, element)
  end
end
index_was_cleared(data, index, schedule, dropped)
return { page[1], dropped }
