-- ZPOPMIN, ZPOPMAX without a count: the deadline of the member goes with it. A stale entry would do no
-- harm: it is cleared when its member comes back, and reaped when it falls due.
-- KEYS: data index schedule
-- ARGV: command
-- RESULT: the command's, in the client's RESP version
-- include try
-- include index
redis.setresp(3)
local popped = try(command, data)
if popped[1] then
  index_was_cleared(data, index, schedule, index_clear(index, popped[1]))
end
return popped
