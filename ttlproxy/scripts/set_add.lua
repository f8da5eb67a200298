-- SADD: a member that exists keeps its deadline, a new one has none.
-- KEYS: data index schedule
-- ARGV: member...
-- RESULT: the reply of the command
local command, first_word, named, step, finder = 'SADD', first_member, first_member, 1, 'SISMEMBER'
-- include fast_write
-- include set
-- include check_type
-- include keep
keep(ARGV, first_member)
local added = try_all('SADD', data, ARGV, first_member)
return failure or added
