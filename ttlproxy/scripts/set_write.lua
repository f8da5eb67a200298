-- SADD in a key with a rule of ONWRITE: a new member gets the deadline of the rule; a member that exists keeps its own,
-- except with REFRESH.
-- KEYS: data index schedule
-- ARGV: origin how member...
-- RESULT: the reply of the command
local named, step, fast_how = first_member, 1, '^(%d)(%+?)(%d+)$'
-- include keeps_all
local there = keeps_all and redis.pcall('SMISMEMBER', data, unpack(ARGV, first_member)) or {}
local met = 0
for i = 1, #there do
  met = met + there[i]
end
if there[1] and met == #there then
  local added = redis.pcall('SADD', data, unpack(ARGV, first_member))
  if type(added) == 'number' then
    return added
  end
end
-- include fast_deadline
if deadline and met == 0 then
  -- The general part handles a key that is not a set.
  if there[1] or digit == '0' and type(redis.pcall('SISMEMBER', data, '')) == 'number' then
    -- include fast_date
    local added = dated and redis.pcall('SADD', data, unpack(ARGV, first_member))
    if type(added) == 'number' then
      return added
    end
  end
end
-- include rule
-- include deadline
-- include set
-- include check_type
-- include timed_write
-- include set_maxlen
-- include maxlen
local members, met, added = {}, {}, 0
for i = first_member, #ARGV do
  local member = ARGV[i]
  if not met[member] then
    met[member] = true
    members[#members + 1] = member
    added = added + 1 - has(member)
  end
end
if not has_room(members, added) then
  return too_many()
end
added = 0
write_timed(members, keeps, function()
  added = try_all('SADD', data, ARGV, first_member)
end)
return failure or added
