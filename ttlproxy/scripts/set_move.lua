-- SMOVE: the deadline travels; an equal member at the target keeps its own.
-- KEYS: data target index target_index schedule
-- ARGV: db member
-- RESULT: the command's
-- include try
-- include clock
-- include index
-- include set
local function move()
  return redis.pcall('SMOVE', data, target, member)
end

local there = redis.pcall('SISMEMBER', target, member)
if data == target or has(member) ~= 1 or type(there) == 'table' then
  return move()
end
index_guard(target_index)
local deadline = index_get(index, member)
if not failure and there == 0 then
  if deadline then
    local before = index_first(target_index)
    index_set(target_index, member, deadline)
    if not failure then
      index_was_set(db, prefix, target, target_index, schedule, now, before, deadline)
    end
  else
    index_was_cleared(target, target_index, schedule, index_clear(target_index, member))
  end
end
if not failure then
  index_was_cleared(data, index, schedule, index_clear(index, member))
end
return failure or move()
