-- Returns the words of a row of netstrings, from number `number` on, as far as the text can be read.
-- GIVES: words_from
local function words_from(number, text)
  local found, at = {}, 1
  while at <= #text do
    local length, begin = string.match(text, '^(%d+):()', at)
    if not begin then
      break
    end
    at = begin + length
    found[#found + 1] = string.sub(text, begin, at - 1)
  end
  return { unpack(found, number) }
end
