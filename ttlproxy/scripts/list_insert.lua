-- LINSERT: a value that is in the list keeps its deadline, which then holds for the new copy too; a
-- new value has none.
-- KEYS: data index schedule
-- ARGV: where pivot element
-- RESULT: the command's
-- include try
-- include index
-- include list
-- include list_keep
keep({ element }, 1)
return try('LINSERT', data, where, pivot, element)
