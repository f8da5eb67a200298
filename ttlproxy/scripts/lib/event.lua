-- JSON that carries any bytes. What is UTF-8 stays as it is; each other byte, 0x80 to 0xff, becomes
-- \udc80 to \udcff, which nothing that is UTF-8 does, so that nothing is lost (Python calls it
-- surrogateescape).
local UTF8 = {
  '^[\194-\223][\128-\191]',
  '^\224[\160-\191][\128-\191]',
  '^[\225-\236\238\239][\128-\191][\128-\191]',
  '^\237[\128-\159][\128-\191]',
  '^\240[\144-\191][\128-\191][\128-\191]',
  '^[\241-\243][\128-\191][\128-\191][\128-\191]',
  '^\244[\128-\143][\128-\191][\128-\191]',
}

local function utf8_at(text, at)
  for _, pattern in ipairs(UTF8) do
    local found = string.match(text, pattern, at)
    if found then
      return found
    end
  end
end

-- The bytes from 0x80 on, of which there are some.
local function carried(text)
  local parts, at = {}, 1
  while at <= #text do
    local plain = string.match(text, '^[%z\1-\127]+', at)
    local found = plain or utf8_at(text, at)
    parts[#parts + 1] = found or string.format('\\udc%02x', string.byte(text, at))
    at = at + (found and #found or 1)
  end
  return table.concat(parts)
end

local function quoted(text)
  if string.find(text, '[%z\1-\31"\\]') then
    text = string.gsub(text, '[%z\1-\31"\\]', function(char)
      return string.format('\\u%04x', string.byte(char))
    end)
  end
  return '"' .. (string.find(text, '[\128-\255]') and carried(text) or text) .. '"'
end

local function json_of(words)
  local parts = {}
  for i, word in ipairs(words) do
    parts[i] = quoted(word)
  end
  return '[' .. table.concat(parts, ',') .. ']'
end
