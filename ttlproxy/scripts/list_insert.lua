-- LINSERT: a value that is in the list keeps its deadline, and the new copy has the same; a new value has none.
-- KEYS: data index schedule
-- ARGV: where pivot element
-- RESULT: the reply of the command
local command, first_word, named, step, finder = 'LINSERT', 1, 3, 1, false
-- include fast_write
-- include list_keep
keep({ element }, 1)
return try('LINSERT', data, where, pivot, element)
