-- Answers a malformed command on list elements, after what Redis would find wrong before that.
-- KEYS: data
-- ARGV: name amount base text
-- RESULT: an error
-- include try
-- include clock
-- include list
-- include list_length
-- include deadline
return { err = text }
