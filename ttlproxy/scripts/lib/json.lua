-- JSON for any bytes. UTF-8 stays unchanged; each other byte, 0x80 to 0xff, becomes \udc80 to \udcff. Valid UTF-8 has
-- none of these, so the bytes can be restored (surrogateescape in Python).
-- GIVES: json_of

-- First byte of a UTF-8 sequence -> the pattern of a whole sequence. No sequence begins with another byte.
local leads = {}

local function lead(from, to, pattern)
  for byte = from, to do
    leads[byte] = pattern
  end
end

-- Escapes each byte that is not UTF-8, in a text that has bytes from 0x80 on.
local function carried(text)
  if not leads[194] then
    lead(194, 223, '^.[\128-\191]')
    lead(224, 224, '^.[\160-\191][\128-\191]')
    lead(225, 239, '^.[\128-\191][\128-\191]')
    lead(237, 237, '^.[\128-\159][\128-\191]')
    lead(240, 240, '^.[\144-\191][\128-\191][\128-\191]')
    lead(241, 243, '^.[\128-\191][\128-\191][\128-\191]')
    lead(244, 244, '^.[\128-\143][\128-\191][\128-\191]')
  end
  local parts, at, begin = {}, string.find(text, '[\128-\255]'), 1
  while at do
    local byte = string.byte(text, at)
    local _, last = string.find(text, leads[byte] or '^$', at)
    if not last then
      parts[#parts + 1] = string.sub(text, begin, at - 1)
      parts[#parts + 1] = string.format('\\udc%02x', byte)
      begin = at + 1
    end
    at = string.find(text, '[\128-\255]', (last or at) + 1)
  end
  parts[#parts + 1] = string.sub(text, begin)
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
