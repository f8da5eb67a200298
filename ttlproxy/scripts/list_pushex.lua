-- LPUSHEX, RPUSHEX: pushes values and gives them, and equal values in the list, a deadline in one step.
-- If it is already past, they are removed, but counted in the reply.
-- KEYS: data index schedule
-- ARGV: origin how element...
-- RESULT: how many live entries the list has after the push, -1 if they are too many
local named, step, fast_how = first_element, 1, '^(0)(%+?)(%d+)$'
-- include fast_deadline
if deadline and type(redis.pcall('LLEN', data)) == 'number' then
  -- include fast_date
  local command = string.find(origin, ' lpushex', 1, true) and 'LPUSH' or 'RPUSH'
  local length = dated and redis.pcall(command, data, unpack(ARGV, first_element))
  if type(length) == 'number' then
    return length
  end
end
-- include list
-- include timed_write
-- include list_maxlen
-- include maxlen
local commands = { lpushex = 'LPUSH', rpushex = 'RPUSH' }
-- include pushed_values
local keep = flag == '1'
if keep or cap ~= '' then
  look_for(values, 1)
end
if cap ~= '' then
  look_for(index_due(index, now, -1), 1)
end
-- Each push makes the list longer, even if an equal value exists.
local fits, _, _, live = has_room(values, pushed)
if not fits then
  return const.TOO_MANY
end
write_timed(values, keep, function()
  try_all(commands[name], data, ARGV, first_element)
end)
return failure or (live or length) + pushed
