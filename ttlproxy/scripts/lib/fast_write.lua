-- The whole fast path of a native write: `command`, with the words of ARGV from number `first_word` on.
-- NEEDS: index_stays.lua command first_word data
if index_stays then
  local reply = redis.pcall(command, data, unpack(ARGV, first_word))
  if type(reply) ~= 'table' or not reply.err then
    return reply
  end
end
