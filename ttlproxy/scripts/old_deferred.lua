-- Converts version 0.1: signs a page of the commands that it deferred for one key.
-- KEYS: deferred others
-- ARGV: inner outer cursor count
-- RESULT: the next cursor, 0 at the end
-- include try
-- include others
-- include deferred
-- include signed
local page = redis.pcall('HSCAN', deferred, cursor, 'COUNT', count)
if page.err then
  return page
end
for i = 1, #page[2], 2 do
  local words, signature = deferred_words(page[2][i + 1], deferred_target(deferred))
  if words and signature == '' then
    try('HSET', deferred, page[2][i], cmsgpack.pack(signature_of(const.DEFERRED, words), words))
  end
end
others_add(deferred)
return failure or page[1]
