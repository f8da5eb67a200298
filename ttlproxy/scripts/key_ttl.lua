-- TTL, PTTL, EXPIRETIME, PEXPIRETIME: when the key itself expires, also where Redis has a later time.
-- READS
-- KEYS: data index
-- ARGV: command
-- RESULT: the command's
-- include try
-- include clock
-- include index
local ends = kept_until(data, index)
if not ends then
  return redis.pcall(command, data)
end
local at = string.find(command, 'TIME$') and ends or math.max(ends - now, 0)
return string.find(command, '^P') and at or math.floor((at + 500) / 1000)
