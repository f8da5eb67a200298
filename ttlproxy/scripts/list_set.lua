-- LSET: the deadline of the old value is removed with its last copy: see lib/list_clear.lua. The new value has none,
-- unless the list has an equal value with a deadline.
-- KEYS: data index schedule
-- ARGV: at element
-- RESULT: the reply of the command
local named, step, finder = 2, 1, false
-- include index_stays
local replaced = index_stays and redis.pcall('LINDEX', data, at)
if type(replaced) == 'string' and not redis.pcall('ZSCORE', index, replaced) then
  local reply = redis.pcall('LSET', data, at, element)
  if reply.ok then
    return reply
  end
end
-- include list_keep
local function set()
  return try('LSET', data, at, element)
end

local old = redis.pcall('LINDEX', data, at)
if type(old) ~= 'string' or old == element then
  return set()
end
keep({ element }, 1)
local reply = set()
clear_removed({ old })
return reply
