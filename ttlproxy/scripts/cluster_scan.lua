-- CLUSTERSCAN of Valkey 9.1 without internal keys. Valkey sends it to the slot of its cursor.
-- READS
-- KEYS: data
-- ARGV: option...
-- RESULT: the reply of the command; the cursor is unchanged, and a page may have fewer names
-- include visible
local reply = redis.pcall('CLUSTERSCAN', data, unpack(ARGV, first_option))
if reply.err then
  return reply
end
return { reply[1], visible(reply[2]) }
