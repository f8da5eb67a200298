-- INFO with the section of ttlproxy at its end.
-- READS
-- KEYS:
-- ARGV: section argument...
-- RESULT: the command's, under RESP3 a verbatim string where Lua has those: from Redis 7.0 on
-- include verbatim
local reply = redis.pcall('INFO', unpack(ARGV, first_argument))
if type(reply) == 'table' and reply.err then
  return reply
end
local text = plain(reply)
return verbatim(text == '' and section or text .. '\r\n' .. section)
