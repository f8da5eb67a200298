-- Tells the slots of a Cluster's node which version of the rules is in force.
-- KEYS:
-- ARGV: version slots pattern
-- `slots` has the three characters of the word of each slot, the hash tag of its internal keys.
-- RESULT: the words of those that could not be told
-- If there is a pattern, this node's proxies are told that a rule of ONWRITE has changed, as in lib/rules.lua.
-- include slot_versions
local refused = slots_learn(version, slots)
if pattern == '' then
  return refused
end
for at = 1, #slots, 3 do
  local tag = ':{' .. string.sub(slots, at, at + 2) .. '}'
  local name = prefix .. const.RULES_CHANGED .. tag .. '0:0:' .. pattern
  local reply = redis.pcall('SET', name, '')
  if not reply.err then
    redis.call('DEL', name)
    return refused
  end
end
-- All are on their way: whoever takes them over is told.
return refused
