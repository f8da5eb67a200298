-- Answers a malformed command whose arguments come before the type of its key.
-- READS
-- KEYS:
-- ARGV: name amount base text
-- RESULT: an error
-- include clock
-- include deadline
return { err = text }
