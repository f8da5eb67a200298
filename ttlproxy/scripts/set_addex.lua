-- SADDEX: adds members to a set and gives them their deadline in one step.
-- KEYS: data index schedule
-- ARGV: origin how member...
-- RESULT: how many members are new, -1 if they are too many
local command, first_word, named, step, fast_how = 'SADD', first_member, first_member, 1, '^(0)(%+?)(%d+)$'
-- include fast_deadline
if deadline and type(redis.pcall('SISMEMBER', data, '')) == 'number' then
  -- include fast_timed
end
-- include words
-- include deadline
-- include set
-- include check_type
-- include timed_write
-- include maxlen
-- Whether the script must know before the write which members exist.
local looks = condition ~= '' or cap ~= '' or at_once
-- With MAXLEN, members past their deadline count as absent.
local gone = cap ~= '' and past_deadline() or {}
local members, met, added = {}, {}, 0
for i = first_member, #ARGV do
  local member = ARGV[i]
  if not met[member] then
    met[member] = true
    local there = looks and has(member)
    local lives = gone[member] and 0 or there
    if condition == '' or lives == (condition == 'XX' and 1 or 0) then
      members[#members + 1] = member
      added = added + (looks and 1 - there or 0)
    end
  end
end
local fits, _, revived = has_room(members, added, condition == 'XX')
if not fits then
  return const.TOO_MANY
end
write_timed(members, flag == '1', function()
  local new = try_all('SADD', data, members, 1)
  added = looks and added or new
end)
return failure or added + revived
