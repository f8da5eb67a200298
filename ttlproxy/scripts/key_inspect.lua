-- One key for the inspector: a page of its elements that have a deadline, the earliest first.
-- READS
-- KEYS: data index
-- ARGV: offset count most
-- RESULT: [now in ms, type, elements in all or -1, elements with a deadline, ms the key itself has left
--   or -1, [[the element's first `most` bytes, its length, deadline in ms] ...]]
-- include clock
-- include index
-- include lengths
-- include page
-- include there
local kind = redis.call('TYPE', data).ok
local size = lengths[kind] and redis.call(lengths[kind], data) or -1
local page = index_page(index, offset, count)
if page.err then
  return page
end
local timed, left = index_size(index), key_left(data, index, now)
return { now, kind, size, timed, left, cut_page(there(page), tonumber(most)) }
