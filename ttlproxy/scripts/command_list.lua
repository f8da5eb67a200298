-- COMMAND LIST with our names at its end.
-- READS
-- KEYS:
-- ARGV: names argument...
-- RESULT: the reply of the command
local reply = redis.pcall('COMMAND', 'LIST', unpack(ARGV, first_argument))
if not reply.err then
  for name in string.gmatch(names, '%S+') do
    reply[#reply + 1] = name
  end
end
return reply
