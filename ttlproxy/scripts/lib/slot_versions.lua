-- The version of the rules in the slots of a node of a Cluster. The rules are in the home slot; in any other slot the
-- hash of that name has only their version, so that reap.lua detects each change.
-- GIVES: slots_learn rules_spread
-- Writes the version to each slot whose version is lower. Returns the tags of the slots where Redis refuses that,
-- because another node has the slot, or the slot is being moved.
local function slots_learn(version, slots)
  local refused = {}
  for at = 1, #slots, 3 do
    local word = string.sub(slots, at, at + 2)
    local name = prefix .. const.RULES .. ':{' .. word .. '}'
    local there = redis.pcall('HGET', name, const.VERSION)
    if type(there) == 'table' or (tonumber(there) or 0) < tonumber(version) then
      local reply = redis.pcall('HSET', name, const.VERSION, version)
      if type(reply) == 'table' then
        refused[#refused + 1] = word
      end
    end
  end
  return refused
end

-- Writes the version after a rule has changed. Returns the error if Redis refuses it in a slot, else nil.
local function rules_spread(version, slots)
  if dry_run then
    return
  end
  local refused = slots_learn(version, slots)
  if refused[1] then
    return { err = const.NOT_IN_FORCE }
  end
end
