-- LREM: the deadline of the value is removed with its last copy: see lib/list_clear.lua.
-- KEYS: data index schedule
-- ARGV: count element
-- RESULT: the reply of the command
local command, first_word, named, step, finder = 'LREM', 1, 2, 1, false
-- include fast_write
-- include list_clear
local removed = try('LREM', data, count, element)
if type(removed) == 'number' and removed > 0 then
  clear_removed({ element })
end
return removed
