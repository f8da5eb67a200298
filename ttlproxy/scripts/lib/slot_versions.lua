-- The version of the rules in the slots of a Cluster's node. The rules stand in the home slot; in any other
-- slot the hash of that name has their version only, so that reap.lua knows of each change.
-- GIVES: slots_learn rules_spread
-- Writes it where it is lower. Returns the words of the slots where Redis refuses that: another node has
-- them, or they are on their way there.
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

-- The error if not every slot could be told of a rule that has just changed, else nil.
local function rules_spread(version, slots)
  if dry_run then
    return
  end
  local refused = slots_learn(version, slots)
  if refused[1] then
    return { err = const.NOT_IN_FORCE }
  end
end
