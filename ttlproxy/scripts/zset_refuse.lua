-- Answers a malformed command on sorted-set members, after what Redis would find wrong before that.
-- KEYS: data
-- ARGV: name amount base text
-- RESULT: an error
-- include try
-- include clock
-- include zset
-- include typed
-- include deadline
return { err = text }
