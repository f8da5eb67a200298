-- The commands that are deferred for a key and due next, for the status page; without the words after their names.
-- READS
-- KEYS: deferred deferred_index data
-- ARGV: count most
-- RESULT: for each [the first `most` bytes of the id, ms left, the command's name, how many words it has]; without
--   commands that DEFER does not accept
-- include clock
-- include index
-- include deferred_names
-- include deferred
local page, found = index_page(deferred_index, 0, count), {}
for at = 1, page.err and 0 or #page, 2 do
  local packed = redis.pcall('HGET', deferred, page[at])
  local words = type(packed) == 'string' and deferred_words(packed, deferred_target(deferred))
  if words then
    -- 0 for a command that is due, but not executed yet.
    local left = math.max(tonumber(page[at + 1]) - now, 0)
    found[#found + 1] = { string.sub(page[at], 1, most), left, words[1], #words }
  end
end
return found
