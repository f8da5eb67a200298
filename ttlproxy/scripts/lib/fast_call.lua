-- Calls `command` with the words of ARGV from number `first_word` on, and returns its reply, unless Redis refuses it.
-- NEEDS: command first_word data
local reply = redis.pcall(command, data, unpack(ARGV, first_word))
if type(reply) ~= 'table' or not reply.err then
  return reply
end
