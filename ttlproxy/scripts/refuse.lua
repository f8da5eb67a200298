-- Refuses a malformed command of which Redis checks the arguments before the type of the key.
-- READS
-- KEYS:
-- ARGV: name amount base text
-- RESULT: an error
-- include clock
-- include deadline
return { err = text }
