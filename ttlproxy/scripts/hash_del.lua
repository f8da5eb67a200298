-- HDEL: the deadlines of the fields go with them.
-- KEYS: data index schedule
-- ARGV: element...
-- RESULT: the command's
local command, first_word, named, step, finder = 'HDEL', first_element, first_element, 1, false
-- include fast_write
local takes_memory = false
-- include fast_clear
-- include try
-- include index
-- include hash
-- include check_type
-- include remove
