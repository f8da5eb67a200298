-- Tells the slots of a Cluster's node which version of the rules is in force.
-- KEYS:
-- ARGV: version slots announces
-- `slots` has the three characters of the word of each slot, the hash tag of its internal keys.
-- RESULT: the words of those that could not be told
-- `announces` is 1 if this node's proxies are told of it, because rules of ONWRITE may have changed. Without a
-- version nothing else is done.
-- include slot_versions
local refused = version ~= '' and slots_learn(version, slots) or {}
if announces ~= '1' then
  return refused
end
for at = 1, #slots, 3 do
  local name = prefix .. const.RULES_VERSION .. '{' .. string.sub(slots, at, at + 2) .. '}' .. version
  local reply = redis.pcall('SET', name, '')
  if not reply.err then
    redis.call('DEL', name)
    return refused
  end
end
-- All are on their way: whoever takes them over is told.
return refused
