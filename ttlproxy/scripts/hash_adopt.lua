-- Moves deadlines of hash fields that the server has to the index, one page of fields at a time.
-- KEYS: data index schedule
-- ARGV: db cursor
-- RESULT: the next cursor, 0 at the end
-- include clock
-- include native
local page = redis.pcall('HSCAN', data, cursor, 'COUNT', 500)
if page.err then
  return page
end
local before, first = (index_follow(data, index, schedule, now)), nil
for i = 1, #page[2], 2 do
  local field = page[2][i]
  if native_deadline(field) then
    local deadline = index_get(index, field)
    index_set(index, field, deadline)
    first = math.min(first or deadline, deadline)
  end
end
if first and not failure then
  index_was_set(db, prefix, data, index, schedule, now, before, first)
end
return failure or page[1]
