-- ZADDEX: adds members to a sorted set and gives them their deadline in one step.
-- KEYS: data index schedule
-- ARGV: origin how tuple...
-- RESULT: as of ZADD, -1 if the members are too many
local command, first_word, named, step, fast_how = 'ZADD', first_tuple, first_tuple + 1, 2, '^(0)(%+?)(%d+)$'
-- include fast_deadline
if deadline and type(redis.pcall('ZSCORE', data, '')) ~= 'table' then
  local are_numbers = true
  for i = first_tuple, #ARGV, 2 do
    -- Redis may accept other texts as numbers too; below it checks them itself.
    are_numbers = are_numbers and #ARGV[i] < 100 and string.find(ARGV[i], '^%-?%d+%.?%d*$')
  end
  if are_numbers then
    -- include fast_timed
  end
end
-- include words
-- include deadline
-- include zset
how = 'ZADD ' .. string.gsub(condition, '%a%a', '%0 ')
-- include zadd
-- include check_type
-- include timed_write
-- include maxlen
local members, added, changed = written_members()
local fits, _, revived = has_room(members, added, options.XX)
if not fits then
  return const.TOO_MANY
end
write_timed(members, flag == '1', write_tuples)
return failure or (options.CH and changed or added + revived)
