-- Unpacks the first two words. They are packed because Redis 7 accepts at most ten words from a client that has not
-- authenticated, and a command on one element must fit into them.
-- origin: `db name`. how: a digit; the conditions; the time in ms, after a plus if it counts from now; MAXLEN after a
-- slash, with an E if it evicts; `cap` and `evict` are '' if not given; last, the mark of a rule of ONWRITE after `#`.
-- NEEDS: origin how
-- GIVES: db name cap evict mark flag condition amount base
local db, name = string.match(origin, '^(%S+) (%S+)$')
local flag, condition, sign, amount, cap, evict, mark =
  string.match(how, '^(%d)(%a*)(%+?)(%d*)/?(%d*)(E?)#?(.*)$')
local base = sign == '+' and 1 or 0
