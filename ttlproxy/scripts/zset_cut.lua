-- ZREMRANGEBYRANK, ZREMRANGEBYSCORE, ZREMRANGEBYLEX: the deadlines of the members go with them.
-- KEYS: data index schedule
-- ARGV: command from to
-- RESULT: the command's
-- include try
-- include index
-- include clear
local by = { ZREMRANGEBYRANK = {}, ZREMRANGEBYSCORE = { 'BYSCORE' }, ZREMRANGEBYLEX = { 'BYLEX' } }
local members = redis.pcall('ZRANGE', data, from, to, unpack(by[command]))
clear(members, 1)
return try(command, data, from, to)
