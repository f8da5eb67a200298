-- LREM: the deadline of the value goes with its last copy. A stale entry would do no harm: it is
-- cleared when its value comes back, and reaped when it falls due.
-- KEYS: data index schedule
-- ARGV: count element
-- RESULT: the command's
local command, first_word, named, step, finder = 'LREM', 1, 2, 1, false
-- include fast_write
-- include try
-- include index
-- include list
-- include list_clear
local removed = try('LREM', data, count, element)
if type(removed) == 'number' and removed > 0 then
  clear_removed({ element })
end
return removed
