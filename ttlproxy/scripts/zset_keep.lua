-- ZINCRBY, ZADD INCR: a member that is there keeps its deadline, a new one has none.
-- KEYS: data index schedule
-- ARGV: how argument...
-- RESULT: the command's, in the client's RESP version
-- include try
-- include index
-- include zset
-- include options
local member = ARGV[#ARGV]
index_guard(index)
if failure then
  return failure
end
if has(member) == 0 then
  index_was_cleared(data, index, schedule, index_clear(index, member))
end
redis.setresp(3)
return failure or redis.pcall(called(data, first_argument, #ARGV))
