-- Converts version 0.1: it counted how often elements were handed on in one sorted set, as `length:index
-- element`. Moves a page of that to a sorted set for each key.
-- KEYS: old_counts others
-- ARGV: most
-- RESULT: how many are left
-- include try
-- include index
-- include others
local page = redis.pcall('ZRANGE', old_counts, 0, most - 1, 'WITHSCORES')
if page.err then
  return 0
end
for i = 1, #page, 2 do
  local length, begin = string.match(page[i], '^(%d+):()')
  if length then
    local counts = counts_name(string.sub(page[i], begin, begin + length - 1))
    try('ZADD', counts, page[i + 1], string.sub(page[i], begin + length))
    others_add(counts)
  end
  try('ZREM', old_counts, page[i])
end
return failure or redis.call('ZCARD', old_counts)
