-- HDEL, SREM, ZREM: removes elements with their deadlines.
-- KEYS: data index schedule
-- ARGV: element...
-- RESULT: the reply of the command
local command, first_word, named, step, finder = '{remove}', first_element, first_element, 1, false
-- include fast_write
local takes_memory, probe = false, '{find}'
-- include fast_clear
-- include {name}
-- include check_type
-- include clear
clear(ARGV, first_element)
local removed = remove(ARGV, first_element)
return failure or removed
