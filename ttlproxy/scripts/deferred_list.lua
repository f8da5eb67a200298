-- DEFERRED: the commands that are deferred for a key, the earliest first.
-- READS
-- KEYS: deferred deferred_index data
-- ARGV: count
-- RESULT: for each [id, ms left, word, ...]; a negative count means all
-- include clock
-- include index
-- include deferred_names
-- include deferred
local page = index_page(deferred_index, 0, count)
if page.err then
  return page
end
local found = {}
for i = 1, #page, 2 do
  local packed = redis.call('HGET', deferred, page[i])
  local words = packed and deferred_words(packed, deferred_target(deferred))
  if words then
    -- 0 for a command that is due, but not executed yet.
    local left = math.max(tonumber(page[i + 1]) - now, 0)
    found[#found + 1] = { page[i], left, unpack(words) }
  end
end
return found
