-- ZPOPMIN, ZPOPMAX without a count: removes the deadline of the member too: see lib/list_clear.lua for stale entries.
-- KEYS: data index schedule
-- ARGV: command
-- RESULT: the reply of the command, in the client's RESP version
-- include index
redis.setresp(3)
local popped = try(command, data)
if popped[1] then
  index_was_cleared(data, index, schedule, index_clear(index, popped[1]))
end
return popped
