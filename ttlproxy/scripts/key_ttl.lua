-- TTL, PTTL, EXPIRETIME, PEXPIRETIME: when the key really expires, also if Redis has a later expiry.
-- READS
-- KEYS: data index
-- ARGV: command
-- RESULT: the reply of the command
-- include clock
-- include index
local ends = kept_until(data, index)
if not ends then
  return redis.pcall(command, data)
end
local at = string.find(command, 'TIME$') and ends or math.max(ends - now, 0)
return string.find(command, '^P') and at or math.floor((at + 500) / 1000)
