-- What the first two words say, which are packed: before it has logged in, a client may send Redis 7
-- ten words and no more, and a command on one element has to stay within them.
-- origin: `db name`. how: a digit, the condition, and the time, with a plus where it counts from now.
local db, name = string.match(origin, '^(%S+) (%S+)$')
local flag, condition, sign, amount = string.match(how, '^(%d)(%a*)(%+?)(%d*)$')
local base = sign == '+' and 1 or 0
