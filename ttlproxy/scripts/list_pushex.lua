-- LPUSHEX, RPUSHEX: pushes values and gives them, and equal values in the list, a deadline in one step.
-- If it is already past, they are removed, but counted in the reply.
-- KEYS: data index schedule
-- ARGV: origin how element...
-- RESULT: how many live entries the list has after the push, -1 if they are too many
local command = string.find(origin, ' lpushex', 1, true) and 'LPUSH' or 'RPUSH'
local first_word, named, step, fast_how = first_element, first_element, 1, '^(0)(%+?)(%d+)$'
-- include fast_deadline
if deadline and type(redis.pcall('LLEN', data)) == 'number' then
  -- include fast_timed
end
-- include list
-- include timed_write
-- include list_maxlen
-- include maxlen
-- include unique
local pushed = #ARGV - first_element + 1
local keep = flag == '1'
if keep or cap ~= '' then
  look_for(elements, 1)
end
if cap ~= '' then
  look_for(index_due(index, now, -1), 1)
end
-- Each push makes the list longer, even if an equal value exists.
local fits, _, _, live = has_room(elements, pushed)
if not fits then
  return const.TOO_MANY
end
write_timed(elements, keep, function()
  try_all(command, data, ARGV, first_element)
end)
return failure or (live or length) + pushed
