-- Unpacks the first two words. They are packed because a client that has not logged in may send Redis 7
-- at most ten words, and a command on one element must fit into them.
-- origin: `db name`. how: a digit, the conditions, the time (with a plus if it counts from now), then
-- MAXLEN after a slash, with an E if others are evicted; `cap` and `evict` are '' if not given. Last, the
-- mark of a rule of ONWRITE after `#`.
-- NEEDS: origin how
-- GIVES: db name cap evict mark flag condition amount base
local db, name = string.match(origin, '^(%S+) (%S+)$')
local flag, condition, sign, amount, cap, evict, mark =
  string.match(how, '^(%d)(%a*)(%+?)(%d*)/?(%d*)(E?)#?(.*)$')
local base = sign == '+' and 1 or 0
