-- ZREMRANGEBYRANK, ZREMRANGEBYSCORE, ZREMRANGEBYLEX: remove members with their deadlines.
-- KEYS: data index schedule
-- ARGV: command from to
-- RESULT: the reply of the command
-- include clear
local by = { ZREMRANGEBYRANK = {}, ZREMRANGEBYSCORE = { 'BYSCORE' }, ZREMRANGEBYLEX = { 'BYLEX' } }
local members = redis.pcall('ZRANGE', data, from, to, unpack(by[command]))
clear(members, 1)
return try(command, data, from, to)
