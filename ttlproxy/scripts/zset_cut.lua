-- ZREMRANGEBYRANK, ZREMRANGEBYSCORE, ZREMRANGEBYLEX: the deadlines of the members go with them.
-- KEYS: data index schedule
-- ARGV: command from to
-- RESULT: the command's
-- include try
-- include index
local by = { ZREMRANGEBYRANK = {}, ZREMRANGEBYSCORE = { 'BYSCORE' }, ZREMRANGEBYLEX = { 'BYLEX' } }
local members = redis.pcall('ZRANGE', data, from, to, unpack(by[command]))
local cleared = 0
batches(1, #members, function(first, last)
  cleared = cleared + (tonumber(index_clear(index, unpack(members, first, last))) or 0)
end)
index_was_cleared(data, index, schedule, cleared)
return failure or redis.pcall(command, data, from, to)
