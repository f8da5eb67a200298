-- Refuses a malformed command whose arguments Redis checks before the type of the key.
-- READS
-- KEYS:
-- ARGV: name amount base text
-- RESULT: an error
-- include deadline
return { err = text }
