-- COMMAND COUNT, our commands included.
-- READS
-- KEYS:
-- ARGV: ours
-- RESULT: the command's
local count = redis.pcall('COMMAND', 'COUNT')
return type(count) == 'number' and count + ours or count
