-- DBSIZE without internal keys.
-- READS IN ALL SLOTS
-- KEYS: fixed...
-- ARGV: slots
-- The first of the keys is the schedule, the last the set of others. In front of a Cluster, each slot has
-- such keys; `slots` has the words of those that may have them.
-- RESULT: the command's
-- include index
local function internal(names)
  -- Something else may stand in the place of the others.
  local others = tonumber(redis.pcall('SCARD', names[#names])) or 0
  return redis.call('EXISTS', unpack(names)) + index_count(names[1]) + others
end

local hidden = slots == '' and internal(KEYS) or 0
for word in string.gmatch(slots, '%S+') do
  local names = {}
  for at = first_fixed, #KEYS do
    names[#names + 1] = string.sub(KEYS[at], 1, -#slot_tag - 1) .. ':{' .. word .. '}'
  end
  hidden = hidden + internal(names)
end
-- Behind EXISTS, which removes a lease that has expired: DBSIZE would count it.
local size = redis.pcall('DBSIZE')
return type(size) == 'table' and size or size - hidden
