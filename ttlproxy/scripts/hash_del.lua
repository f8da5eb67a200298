-- HDEL: deletes fields with their deadlines.
-- KEYS: data index schedule
-- ARGV: element...
-- RESULT: the reply of the command
local command, first_word, named, step, finder = 'HDEL', first_element, first_element, 1, false
-- include fast_write
local takes_memory = false
-- include fast_clear
-- include try
-- include index
-- include hash
-- include check_type
-- include remove
