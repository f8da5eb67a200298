-- DUE: elements of one key that have a deadline, the earliest first, each with the time it has left.
-- READS
-- KEYS: data index
-- ARGV: count
-- RESULT: for each [element, ms left]; a negative count means all
-- include try
-- include clock
-- include index
-- include finders
local wanted = tonumber(count)
local kind = redis.call('TYPE', data).ok
local find = finders[kind]
local found, offset = {}, 0
while find and #found ~= wanted do
  local page = index_page(index, offset, const.LONG_PAGE)
  if page.err then
    return page
  end
  local elements = {}
  for i = 1, #page, 2 do
    elements[#elements + 1] = page[i]
  end
  look_for(kind == 'list' and elements or {}, 1)
  for i, element in ipairs(elements) do
    local left, there = tonumber(page[2 * i]) - now, find(element)
    if left >= 0 and there and there ~= 0 and #found ~= wanted then
      found[#found + 1] = { element, left }
    end
  end
  if #elements < const.LONG_PAGE then
    break
  end
  offset = offset + const.LONG_PAGE
end
return found
