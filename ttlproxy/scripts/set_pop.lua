-- SPOP: the deadlines of the members go with them. A stale entry would do no harm: it is cleared when
-- its member comes back, and reaped when it falls due.
-- KEYS: data index schedule
-- ARGV: count...
-- RESULT: the command's, in the client's RESP version
-- include try
-- include index
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
