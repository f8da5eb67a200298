-- DUE: elements of one key that have a deadline, the earliest first, each with the time it has left.
-- READS
-- KEYS: data index
-- ARGV: count
-- RESULT: for each [element, ms left]; a negative count means all
-- include clock
-- include index
-- include there
local wanted, found, offset = tonumber(count), {}, 0
while #found ~= wanted do
  local page = index_page(index, offset, const.LONG_PAGE)
  if page.err then
    return page
  end
  local entries = there(page)
  for at = 1, #entries, 2 do
    local left = tonumber(entries[at + 1]) - now
    if left >= 0 and #found ~= wanted then
      found[#found + 1] = { entries[at], left }
    end
  end
  if #page < 2 * const.LONG_PAGE then
    break
  end
  offset = offset + const.LONG_PAGE
end
return found
