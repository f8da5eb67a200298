-- INFO with the section of ttlproxy at its end.
-- READS
-- KEYS:
-- ARGV: section elsewhere argument...
-- `elsewhere`: how many keys are managed in other databases; empty if the section has the number of all.
-- RESULT: the reply of the command, under RESP3 a verbatim string from Redis 7.0 on, where Lua has these
-- include verbatim
local reply = redis.pcall('INFO', unpack(ARGV, first_argument))
if type(reply) == 'table' and reply.err then
  return reply
end
local text = plain(reply)
local here = elsewhere ~= '' and redis.pcall('ZCARD', prefix .. const.SCHEDULE)
if type(here) == 'number' then
  section = string.gsub(section, '(managed_keys:)%d+', '%1' .. elsewhere + here)
end
return verbatim(text == '' and section or text .. '\r\n' .. section)
