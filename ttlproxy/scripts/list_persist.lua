-- Removes the deadline of list elements.
-- KEYS: data index schedule
-- ARGV: db single element...
-- RESULT: for each element 1 removed, -1 had none, -2 no such element
-- include list
-- include list_length
look_for(ARGV, first_element)
-- include persist
