-- The fast path of a write by a rule of ONWRITE may begin with a look at what is there, before any function is
-- made. `keeps_all`: whether elements that are there keep what they have, by a rule without MAXLEN and JITTER,
-- in a database that is known. If all are there, Redis's own command does everything.
-- NEEDS: origin how
-- GIVES: keeps_all
local keeps_all = not dry_run and #ARGV < const.LONG_PAGE and string.find(origin, '^%d')
keeps_all = keeps_all and string.find(how, '^1%+%d+$')
