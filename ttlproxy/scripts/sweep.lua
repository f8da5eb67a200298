-- Removes index entries whose element does not exist, one page at a time, and writes to the index when the key expires.
-- KEYS: data index schedule
-- ARGV: cursor count
-- RESULT: [the next cursor, 0 at the end; removed; first deadline left in ms, -1 without an index]
-- include clock
-- include index
-- include finders
local kind = redis.call('TYPE', data).ok
if not finders[kind] then
  index_drop(data, index, schedule)
  return failure or { '0', 0, const.NO_DEADLINE }
end
if kind == 'list' then
  -- One walk for all entries, if the index does not have more entries than the list.
  count = math.max(count, redis.call('LLEN', data))
end
local page = index_scan(index, cursor, count)
if is_no_index(page) then
  index_drop(data, index, schedule)
  return failure or { '0', 0, const.NO_DEADLINE }
elseif page.err then
  return page
end
local elements = page[2]
if kind == 'list' then
  look_for(elements, 1)
end
local dropped = 0
for _, element in ipairs(elements) do
  if not exists(kind, element) then
    dropped = dropped + index_clear(index, element)
  end
end
index_write_when_full(index)
local first, attention, bound = index_attention(data, index, schedule, now)
entries_write(schedule, first and { ms(attention), data } or {}, first and {} or { data })
return failure or { page[1], dropped, bound or const.NO_DEADLINE }
