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
return index_expire(data, index, schedule, now, at, command, unpack(arguments))
