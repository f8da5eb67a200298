-- ZADD, GEOADD in a key with a rule of ONWRITE: a member whose score changes gets the deadline of the rule; with an
-- equal score ZADD lets it keep its own, except with REFRESH; with KEEPTTL it always keeps it. A member that NX, XX, GT
-- or LT skips stays unchanged.
-- KEYS: data index schedule
-- ARGV: origin how what tuple...
-- RESULT: the reply of the command
local command, first_word, named, step, fast_how = 'ZADD', first_tuple, first_tuple + 1, 2, '^(%d)(%+?)(%d+)$'
-- include fast_deadline
if deadline and what == 'ZADD' and type(redis.pcall('ZSCORE', data, '')) ~= 'table' then
  local are_numbers, members = true, {}
  for i = first_tuple, #ARGV, 2 do
    -- Redis may accept other texts as numbers too; below it checks them itself.
    are_numbers = are_numbers and #ARGV[i] < 100 and string.find(ARGV[i], '^%-?%d+%.?%d*$')
    members[#members + 1] = ARGV[i + 1]
  end
  local scores = are_numbers and digit == '1' and redis.pcall('ZMSCORE', data, unpack(members)) or {}
  local is_known = scores.err
  for i = 1, #scores do
    is_known = is_known or tonumber(scores[i] or '') == tonumber(ARGV[first_tuple + 2 * i - 2])
  end
  if are_numbers and not is_known then
    -- include fast_timed
  end
end
-- include rule
-- include deadline
-- include zset
how = what
local keeps_all = condition == 'K'
-- include zadd
-- include check_type
-- include timed_write
-- include maxlen
local members, new, _, altered = written_members()
if not has_room(members, new, options.XX) then
  return too_many()
end
local dated = keeps and at and command == 'ZADD' and not keeps_all and altered or members
local added = 0
write_timed(dated, keeps_all, function()
  added = write_tuples()
end)
return failure or added
