-- Sets the deadline of list elements.
-- KEYS: data index schedule
-- ARGV: origin how element...
-- RESULT: for each element 1 set, 0 condition not met, 2 deleted because the time is past, -2 no such element
local finder = 'LPOS'
-- include fast_expire
-- include words
-- include list
-- include list_length
-- include deadline
look_for(ARGV, first_element)
-- include expire
