-- INFO with the section of ttlproxy at its end.
-- READS
-- KEYS:
-- ARGV: section elsewhere argument...
-- `elsewhere`: how many keys are managed in other databases; empty if the section has the number of all.
-- RESULT: the reply of the command, under RESP3 a verbatim string from Redis 7.0 on, where Lua has these
-- Scripts of 6.2 have no verbatim strings, so there they call Redis in RESP2.
local has_verbatim = redis.REDIS_VERSION_NUM ~= nil
if has_verbatim then
  redis.setresp(3)
end
local reply = redis.pcall('INFO', unpack(ARGV, first_argument))
if type(reply) == 'table' and reply.err then
  return reply
end
local text = type(reply) == 'table' and reply.verbatim_string.string or reply
local here = elsewhere ~= '' and redis.pcall('ZCARD', prefix .. const.SCHEDULE)
if type(here) == 'number' then
  section = string.gsub(section, '(managed_keys:)%d+', '%1' .. elsewhere + here)
end
text = text == '' and section or text .. '\r\n' .. section
return has_verbatim and { verbatim_string = { format = 'txt', string = text } } or text
