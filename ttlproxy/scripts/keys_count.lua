-- DBSIZE without internal keys.
-- READS IN ALL SLOTS
-- KEYS: fixed...
-- ARGV: slots
-- The first of the keys is the schedule, the last the set of others. In front of a Cluster, each slot has
-- such keys, those of KEYS are in the home slot. `slots` has four characters for each other slot that may
-- have some: its word, and `+` if it may have a set of others, `R` if it may also know the version of the
-- rules.
-- RESULT: the command's
-- include index
local schedule, others = KEYS[first_fixed], KEYS[#KEYS]
local hidden = redis.call('EXISTS', unpack(KEYS)) + index_count(schedule)
-- Something else may stand in the place of the others.
hidden = hidden + (tonumber(redis.pcall('SCARD', others)) or 0)

if slots ~= '' then
  local schedule_of = string.sub(schedule, 1, -#slot_tag - 1) .. ':{'
  local others_of = string.sub(others, 1, -#slot_tag - 1) .. ':{'
  local rules_of = prefix .. const.RULES .. ':{'
  local function count(size)
    if size > 0 then
      hidden = hidden + size + 1
    end
  end
  for at = 1, #slots, 4 do
    local word = string.sub(slots, at, at + 2) .. '}'
    count(index_count(schedule_of .. word))
    local kind = string.sub(slots, at + 3, at + 3)
    if kind == 'R' then
      hidden = hidden + redis.call('EXISTS', rules_of .. word)
    end
    if kind == '+' or kind == 'R' then
      count(tonumber(redis.pcall('SCARD', others_of .. word)) or 0)
    end
  end
end
-- Behind EXISTS, which removes a lease that has expired: DBSIZE would count it.
local size = redis.pcall('DBSIZE')
return type(size) == 'table' and size or size - hidden
