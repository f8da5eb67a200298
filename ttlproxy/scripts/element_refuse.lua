-- Refuses a malformed command on elements; if Redis would find another error first, returns that one.
-- READS
-- KEYS: data
-- ARGV: name amount base text
-- RESULT: an error
-- include {name}
-- include check_type
-- include deadline
return { err = text }
