-- LPOP, RPOP: the deadline of the value is removed with its last copy: see lib/list_clear.lua.
-- KEYS: data index schedule
-- ARGV: command
-- RESULT: the reply of the command
local end_of = { LPOP = '0', RPOP = '-1' }
local next_one = not dry_run and not counting and redis.pcall('LINDEX', data, end_of[command])
if type(next_one) == 'string' and not redis.pcall('ZSCORE', index, next_one) then
  local popped = redis.pcall(command, data)
  if type(popped) == 'string' then
    return popped
  end
end
-- include list_clear
local popped = try(command, data)
if type(popped) == 'string' then
  clear_removed({ popped })
end
return popped
