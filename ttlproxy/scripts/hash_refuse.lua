-- Answers a malformed command on hash fields, after what Redis would find wrong before that.
-- KEYS: data
-- ARGV: name amount base text
-- RESULT: an error
-- include try
-- include clock
-- include hash
-- include typed
-- include deadline
return { err = text }
