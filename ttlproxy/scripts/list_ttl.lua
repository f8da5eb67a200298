-- The time that list elements have left, or their deadline.
-- READS
-- KEYS: data index
-- ARGV: unit base single element...
-- RESULT: for each element the time, in units of `unit` ms; -1 no deadline, -2 no such element
-- include list
-- include list_length
look_for(ARGV, first_element)
-- include ttl
