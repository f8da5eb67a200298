-- Whether a proxy has signed what a client has written down: HMAC-SHA1 (signing.py), of which `inner` and
-- `outer` are the keys.
local function raw(digest)
  local words = {}
  for at = 1, 33, 8 do
    words[#words + 1] = tonumber(string.sub(digest, at, at + 7), 16)
  end
  return struct.pack('>I4I4I4I4I4', unpack(words))
end

local function signature_of(kind, words)
  local row = { #kind .. ':' .. kind }
  for i, word in ipairs(words) do
    row[i + 1] = #word .. ':' .. word
  end
  return redis.sha1hex(outer .. raw(redis.sha1hex(inner .. table.concat(row))))
end
