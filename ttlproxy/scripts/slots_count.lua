-- DBSIZE without internal keys, in front of a Cluster, where each slot may have some. It needs no key in
-- KEYS, since all keys of a transaction must be in one slot.
-- READS IN ALL SLOTS
-- KEYS:
-- ARGV: slots
-- `slots` has four characters for each slot to count: its tag, and `+` if it may have a set of others, `R` if it may
-- also have the version of the rules, `L` if it may also have the lease, else a space.
-- RESULT: the reply of the command
-- include index
local hidden = 0

local function count(size)
  if size > 0 then
    hidden = hidden + size + 1
  end
end

local function exists(name)
  return tonumber(redis.pcall('EXISTS', name)) or 0
end

for at = 1, #slots, 4 do
  local tag = ':{' .. string.sub(slots, at, at + 2) .. '}'
  count(index_count(prefix .. const.SCHEDULE .. tag))
  local kind = string.sub(slots, at + 3, at + 3)
  if kind == 'L' then
    hidden = hidden + exists(prefix .. const.LEASE .. tag)
  end
  if kind == 'L' or kind == 'R' then
    hidden = hidden + exists(prefix .. const.RULES .. tag)
  end
  if kind ~= ' ' then
    count(tonumber(redis.pcall('SCARD', prefix .. const.OTHERS .. tag)) or 0)
  end
end
-- After EXISTS, which deletes a lease that has expired: DBSIZE would count it.
local size = redis.pcall('DBSIZE')
return type(size) == 'table' and size or size - hidden
