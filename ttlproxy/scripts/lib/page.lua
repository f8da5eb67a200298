-- [name, time, ...] -> a list of [the first `most` bytes of the name, its length, the time in ms].
-- GIVES: cut_page
local function cut_page(page, most)
  local found = {}
  for at = 1, #page, 2 do
    found[#found + 1] = { string.sub(page[at], 1, most), #page[at], tonumber(page[at + 1]) }
  end
  return found
end
