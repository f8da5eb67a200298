-- For the fast path of a write by a rule of ONWRITE, before any function is made. `keeps_all`: whether elements that
-- exist already keep their deadlines, by a rule without MAXLEN and JITTER, in a database that is known. If all elements
-- exist, Redis's own command does everything.
-- NEEDS: origin how
-- GIVES: keeps_all
local keeps_all = not dry_run and #ARGV < const.LONG_PAGE and string.find(origin, '^%d')
keeps_all = keeps_all and string.find(how, '^1%+%d+$')
