-- COMMAND COUNT, our commands counted.
-- READS
-- KEYS:
-- ARGV: ours
-- RESULT: the command's
local count = redis.pcall('COMMAND', 'COUNT')
return type(count) == 'number' and count + ours or count
