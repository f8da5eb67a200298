-- Writes the version of the rules to the slots of a node of a Cluster.
-- KEYS:
-- ARGV: version slots announces
-- `slots` has the tag, of three characters, of each slot, which is the hash tag of its internal keys.
-- RESULT: the tags of the slots where Redis refused it
-- `announces` is 1 if the proxies of this node get an announcement, because rules of ONWRITE may have changed. If
-- `version` is empty, nothing but that is done.
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
-- All slots are being moved: the proxies of the nodes that get them will know.
return refused
