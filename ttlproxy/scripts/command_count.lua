-- COMMAND COUNT with our commands.
-- READS
-- KEYS:
-- ARGV: ours
-- RESULT: the reply of the command
local count = redis.pcall('COMMAND', 'COUNT')
return type(count) == 'number' and count + ours or count
