-- ZINCRBY, ZADD INCR: a member that is there keeps its deadline, a new one has none.
-- KEYS: data index schedule
-- ARGV: how argument...
-- RESULT: the command's, in the client's RESP version
-- include try
-- include index
-- include zset
-- include keep
-- include options
local member = ARGV[#ARGV]
keep(member)
redis.setresp(3)
return try(called(data, first_argument, #ARGV))
