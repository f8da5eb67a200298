-- Counts deferred commands of a key that no proxy has signed, for `ttlproxy doctor`.
-- KEYS: deferred
-- ARGV: inner outer count
-- About `count` commands are checked.
-- RESULT: how many are not signed
-- include deferred_names
-- include deferred
-- include signed
local page, unsigned = redis.pcall('HSCAN', deferred, 0, 'COUNT', count), 0
if page.err then
  return 0
end
for i = 2, #page[2], 2 do
  local words, signature = deferred_words(page[2][i], deferred_target(deferred))
  if not words or signature ~= signature_of(const.DEFERRED, words) then
    unsigned = unsigned + 1
  end
end
return unsigned
