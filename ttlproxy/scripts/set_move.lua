-- SMOVE: moves the deadline too; an equal member at the target keeps its own. A member without a deadline gets that of
-- a rule of ONWRITE for the target, if there is one.
-- KEYS: data target index target_index schedule
-- ARGV: db member rule...
-- RESULT: the reply of the command
-- include set
-- include carry_deadline
local rule_words = ARGV[first_rule] or ''
-- include deadline_by_rule
local function move()
  return try('SMOVE', data, target, member)
end

local there = redis.pcall('SISMEMBER', target, member)
if data == target or has(member) ~= 1 or type(there) == 'table' then
  return move()
end
-- Redis moves a member on a full server too.
index_write_when_full(target_index)
index_guard(target_index)
local deadline = index_get(index, member) or deadline_by_rule()
if not failure and there == 0 then
  carry_deadline(member, deadline)
end
if not failure then
  index_was_cleared(data, index, schedule, index_clear(index, member))
end
return move()
