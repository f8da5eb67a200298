-- LPOP, RPOP: the deadline of the value goes with its last copy. A stale entry would do no harm: it is
-- cleared when its value comes back, and reaped when it falls due.
-- KEYS: data index schedule
-- ARGV: command
-- RESULT: the command's
-- include try
-- include index
-- include list
-- include list_clear
local popped = try(command, data)
if type(popped) == 'string' then
  clear_removed({ popped })
end
return popped
