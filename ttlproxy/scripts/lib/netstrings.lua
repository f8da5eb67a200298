-- The words in a row of netstrings, from one of them on.
local function words_from(number, text)
  local found, at = {}, 1
  while at <= #text do
    local length, begin = string.match(text, '^(%d+):()', at)
    at = begin + length
    found[#found + 1] = string.sub(text, begin, at - 1)
  end
  return { unpack(found, number) }
end
