-- SPOP: the deadlines of the members go with them. An entry that stayed behind would do no harm: it
-- is cleared when its member comes back, and reaped when it falls due.
-- KEYS: data index schedule
-- ARGV: count...
-- RESULT: the command's, in the client's RESP version
-- include try
-- include index
redis.setresp(3)
local popped = redis.pcall('SPOP', data, unpack(ARGV))
local members = {}
if type(popped) == 'string' then
  members[1] = popped
elseif type(popped) == 'table' and popped.set then
  for member in pairs(popped.set) do
    members[#members + 1] = member
  end
end
local cleared = 0
batches(1, #members, function(from, to)
  cleared = cleared + (tonumber(index_clear(index, unpack(members, from, to))) or 0)
end)
index_was_cleared(data, index, schedule, cleared)
return popped
