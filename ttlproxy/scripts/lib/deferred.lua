-- Reads a hash of deferred commands. It may contain anything, because clients may write to it.
-- GIVES: deferred_words
local VERBS = {
  LPUSH = true, RPUSH = true, XADD = true,
  PUBLISH = true, SPUBLISH = true, DEL = true, UNLINK = true,
}

-- Returns the words of a command, and its signature; nothing if DEFER does not accept that command, or if it is not
-- for `target`, the key that the hash belongs to.
local function deferred_words(packed, target)
  local readable, signature, command = pcall(cmsgpack.unpack, packed)
  if not readable or type(command) ~= 'table' then
    return
  end
  local words = {}
  for i, word in ipairs(command) do
    if type(word) ~= 'string' then
      return
    end
    words[i] = word
  end
  if VERBS[words[1]] and words[2] == target then
    return words, signature
  end
end
