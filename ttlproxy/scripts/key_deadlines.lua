-- A page of the deadlines of one key's elements, the earliest first.
-- READS
-- KEYS: data index
-- ARGV: offset count
-- RESULT: for each [element, deadline in ms]
-- include index
-- include there
local page = index_page(index, offset, count)
if page.err then
  return page
end
local entries, found = there(page), {}
for at = 1, #entries, 2 do
  found[#found + 1] = { entries[at], tonumber(entries[at + 1]) }
end
return found
