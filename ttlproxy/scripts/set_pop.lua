-- SPOP: removes the deadlines of the members too: see lib/list_clear.lua for stale entries.
-- KEYS: data index schedule
-- ARGV: count...
-- RESULT: the reply of the command, in the client's RESP version
-- include clear
redis.setresp(3)
local popped = try('SPOP', data, unpack(ARGV))
local members = {}
if type(popped) == 'string' then
  members[1] = popped
elseif type(popped) == 'table' and popped.set then
  for member in pairs(popped.set) do
    members[#members + 1] = member
  end
end
clear(members, 1)
return popped
