-- The signature of rules and deferred commands by proxies: HMAC-SHA1 (core/signing.py). `inner` and `outer` are the
-- padded keys.
-- NEEDS: inner outer
-- GIVES: signature_of
local function raw(digest)
  local sub = string.sub
  return struct.pack('>I4I4I4I4I4',
    tonumber(sub(digest, 1, 8), 16), tonumber(sub(digest, 9, 16), 16),
    tonumber(sub(digest, 17, 24), 16), tonumber(sub(digest, 25, 32), 16),
    tonumber(sub(digest, 33, 40), 16))
end

local function signature_of(kind, words)
  local row = { #kind .. ':' .. kind }
  for i, word in ipairs(words) do
    row[i + 1] = #word .. ':' .. word
  end
  return redis.sha1hex(outer .. raw(redis.sha1hex(inner .. table.concat(row))))
end
