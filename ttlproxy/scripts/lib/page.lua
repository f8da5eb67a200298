-- [name, when, ...] -> for each [the name's first `most` bytes, its length, when in ms].
-- GIVES: cut_page
local function cut_page(page, most)
  local found = {}
  for at = 1, #page, 2 do
    found[#found + 1] = { string.sub(page[at], 1, most), #page[at], tonumber(page[at + 1]) }
  end
  return found
end
