-- Refuses a malformed command on list elements; if Redis would find another error first, returns that one.
-- READS
-- KEYS: data
-- ARGV: name amount base text
-- RESULT: an error
-- include list
-- include list_length
-- include deadline
return { err = text }
