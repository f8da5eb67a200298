-- What the first two words say, which are packed: before it has logged in, a client may send Redis 7
-- ten words and no more, and a command on one element has to stay within them.
-- origin: `db name`. how: a digit, the conditions, the time, with a plus where it counts from now, and
-- MAXLEN after a slash, with an E where others are evicted; `cap` and `evict` are '' where not given.
-- A mark by which the reply will be known may stand behind.
local db, name = string.match(origin, '^(%S+) (%S+)$')
local flag, condition, sign, amount, cap, evict, mark =
  string.match(how, '^(%d)(%a*)(%+?)(%d*)/?(%d*)(E?)#?(.*)$')
local base = sign == '+' and 1 or 0
