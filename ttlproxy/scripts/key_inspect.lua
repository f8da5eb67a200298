-- For the inspector: a page of the elements of a key that have a deadline, the earliest first.
-- READS
-- KEYS: data index
-- ARGV: offset count most
-- RESULT: [now in ms, type, elements in all or -1, elements with a deadline, ms until the key expires or -1,
--   [[the first `most` bytes of the element, its length, deadline in ms] ...]]
-- include clock
-- include index
-- include page
-- include there
local kind, lengths = redis.call('TYPE', data).ok, const.LENGTHS
local size = lengths[kind] and redis.call(lengths[kind], data) or -1
local page = index_page(index, offset, count)
if page.err then
  return page
end
local timed, left = index_size(index), key_left(data, index, now)
return { now, kind, size, timed, left, cut_page(there(page), tonumber(most)) }
