-- Sets the deadline of elements.
-- KEYS: data index schedule
-- ARGV: origin how element...
-- RESULT: for each element 1 set, 0 condition not met, 2 deleted because the time is past, -2 no such element
local finder = '{find}'
-- include fast_expire
-- include {name}
-- include {check}
-- include expire
