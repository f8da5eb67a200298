-- SADD: a member that exists keeps its deadline, a new one has none.
-- KEYS: data index schedule
-- ARGV: member...
-- RESULT: the reply of the command
local command, first_word, named, step, finder = 'SADD', first_member, first_member, 1, 'SISMEMBER'
-- include fast_write
-- include index
-- include set
-- include check_type
index_guard(index)
local cleared = 0
for i = first_member, #ARGV do
  if failure then
    return failure
  end
  if has(ARGV[i]) == 0 then
    cleared = cleared + (tonumber(index_clear(index, ARGV[i])) or 0)
  end
end
index_was_cleared(data, index, schedule, cleared)
local added = try_all('SADD', data, ARGV, first_member)
return failure or added
