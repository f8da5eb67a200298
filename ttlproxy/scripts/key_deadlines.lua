-- A page of the deadlines of one key's elements, the earliest first.
-- READS
-- KEYS: data index
-- ARGV: offset count
-- RESULT: for each [element, deadline in ms]
-- include try
-- include index
local page = index_page(index, offset, count)
if page.err then
  return page
end
local found = {}
for at = 1, #page, 2 do
  found[#found + 1] = { page[at], tonumber(page[at + 1]) }
end
return found
