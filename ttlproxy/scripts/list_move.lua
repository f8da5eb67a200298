-- LMOVE, RPOPLPUSH: moves the deadline too; an equal value at the target keeps its own. The source loses the deadline
-- with its last copy. A value without a deadline gets that of a rule of ONWRITE for the target.
-- KEYS: data target index target_index schedule
-- ARGV: db command rule end...
-- RESULT: the reply of the command
-- include list_clear
-- include carry_deadline
local rule_words = rule
-- include deadline_by_rule
local ends = { LEFT = 0, RIGHT = -1 }
local words = command == 'LMOVE' and { unpack(ARGV, first_end) } or { 'RIGHT', 'LEFT' }
local from, to = ends[string.upper(words[1])], ends[string.upper(words[2])]

local function move()
  return try(command, data, target, unpack(ARGV, first_end))
end

local value = from and to and redis.pcall('LINDEX', data, from)
if data == target or type(value) ~= 'string' then
  return move()
end
local deadline = index_get(index, value)
local by_rule = not deadline and deadline_by_rule()
-- If the value has no deadline in either list, no walk along a list is needed.
if not (deadline or by_rule or index_get(target_index, value)) then
  return move()
end
local there = redis.pcall('LPOS', target, value)
if type(there) == 'table' then
  return move()
end
index_guard(target_index)
if not failure and (not there or by_rule and not index_get(target_index, value)) then
  carry_deadline(value, deadline or by_rule)
end
local moved = move()
if type(moved) == 'string' then
  clear_removed({ value })
end
return moved
