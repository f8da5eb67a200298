-- ZINCRBY, ZADD INCR: a member that exists keeps its deadline, a new one has none.
-- KEYS: data index schedule
-- ARGV: how argument...
-- RESULT: the reply of the command, in the client's RESP version
local named, step, finder = #ARGV, 1, 'ZSCORE'
-- include index_stays
if index_stays and how == 'ZINCRBY' then
  redis.setresp(3)
  local score = redis.pcall(how, data, unpack(ARGV, first_argument))
  if not score.err then
    return score
  end
  redis.setresp(2)
end
-- include zset
-- include keep
-- include options
keep(ARGV, #ARGV)
redis.setresp(3)
return try(called(data, first_argument, #ARGV))
