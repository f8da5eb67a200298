-- SADD in a key with a rule of ONWRITE: a new member gets the deadline of the rule; a member that exists keeps its own,
-- except with REFRESH.
-- KEYS: data index schedule
-- ARGV: origin how member...
-- RESULT: the reply of the command
local command, first_word, named, step, fast_how = 'SADD', first_member, first_member, 1, '^(%d)(%+?)(%d+)$'
-- include keeps_all
local there = keeps_all and redis.pcall('SMISMEMBER', data, unpack(ARGV, first_member)) or {}
local met = 0
for i = 1, #there do
  met = met + there[i]
end
if there[1] and met == #there then
  -- include fast_call
end
-- include fast_deadline
if deadline and met == 0 then
  -- The general part handles a key that is not a set.
  if there[1] or digit == '0' and type(redis.pcall('SISMEMBER', data, '')) == 'number' then
    -- include fast_timed
  end
end
-- include rule
-- include deadline
-- include set
-- include check_type
-- include timed_write
-- include maxlen
-- include unique
if not has_room(elements, #absent(elements, 1)) then
  return too_many()
end
local added = 0
write_timed(elements, keeps, function()
  added = try_all('SADD', data, ARGV, first_member)
end)
return failure or added
