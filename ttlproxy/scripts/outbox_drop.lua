-- Removes entries of an outbox that were carried to their slot, from its front on, up to the first other entry: after a
-- failover there may be others; or another proxy may have removed them.
-- KEYS: data index schedule
-- ARGV: id...
-- RESULT: how many entries are left
-- An id is the `term number` at the beginning of an entry.
-- include index
-- include others
local carried, count = {}, 0
for i = first_id, #ARGV do
  carried[ARGV[i]] = true
end
for _, entry in ipairs(redis.call('LRANGE', data, 0, #ARGV - 1)) do
  if not carried[string.match(entry, '^%x+ %d+')] then
    break
  end
  count = count + 1
end
if count > 0 then
  try('LTRIM', data, count, -1)
end
local left = redis.call('LLEN', data)
if left == 0 then
  index_drop(data, index, schedule)
  others_gone(data)
end
return failure or left
