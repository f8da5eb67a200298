-- Answers a malformed command on set members, after what Redis would find wrong before that.
-- KEYS: data
-- ARGV: name amount base text
-- RESULT: an error
-- include try
-- include clock
-- include set
-- include typed
-- include deadline
return { err = text }
