-- EXPIRE and its family: the index gets the same expiry as its data. Both had the same one before, so a
-- condition decides alike for both.
-- KEYS: data index schedule
-- ARGV: command argument...
-- RESULT: the command's
-- include try
-- include clock
-- include index
local arguments = { unpack(ARGV, first_argument) }
local number = arguments[1]
local at
local unit = string.find(command, '^P') and 1 or 1000
local base = string.find(command, 'AT$') and 0 or 1
-- A plain number becomes one instant for both keys. Any other is left to Redis to take or refuse.
if number == '0' or string.find(number, '^%-?[1-9]%d*$') and #number <= 13 then
  at = number * unit + base * now
  command, arguments[1] = 'PEXPIREAT', ms(at)
end
if redis.call('EXISTS', data) == 0 then
  -- Of a former key, and not swept yet. Without it a sweep would not find the schedule entry.
  index_drop(data, index, schedule)
else
  try(command, index, unpack(arguments))
end
if failure then
  return failure
end
local reply = redis.pcall(command, data, unpack(arguments))
if reply == 1 and at then
  if at <= now then
    try('ZREM', schedule, data)
  else
    try('ZADD', schedule, 'XX', 'LT', ms(at), data)
  end
end
return reply
