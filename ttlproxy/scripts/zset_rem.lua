-- ZREM: the deadlines of the members go with them.
-- KEYS: data index schedule
-- ARGV: element...
-- RESULT: the command's
local command, first_word, named, step, finder = 'ZREM', first_element, first_element, 1, false
-- include fast_write
local takes_memory = false
-- include fast_clear
-- include try
-- include index
-- include zset
-- include check_type
-- include remove
