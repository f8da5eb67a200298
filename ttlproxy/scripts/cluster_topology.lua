-- CLUSTER MYID, NODES, REPLICAS, SHARDS or SLOTS with the nodes of core/cluster_view.py, which are addresses of the
-- proxy and have no replicas.
-- READS
-- KEYS:
-- ARGV: resp what host mine node...
-- RESULT: the reply of the command
-- `mine` is the number of the node that is asked. Each node is its id, its port and its slots: `a1b2 6380 0-99 200`.
local nodes = {}
for number = first_node, #ARGV do
  local id, port, slots = string.match(ARGV[number], '^(%S+) (%d+)(.*)$')
  if id == '-' then
    id = redis.pcall('CLUSTER', 'MYID')
    if type(id) == 'table' then
      return id
    end
  end
  nodes[#nodes + 1] = { id = id, port = tonumber(port), slots = slots }
end
local me = nodes[tonumber(mine)]
if what == 'myid' then
  return me.id
elseif what == 'nodes' then
  local lines = {}
  for number, node in ipairs(nodes) do
    local flags = node == me and 'myself,master' or 'master'
    local at = string.format('%s:%d@%d', host, node.port, node.port + const.BUS)
    lines[number] = string.format('%s %s %s - 0 0 %d connected%s\n', node.id, at, flags, number, node.slots)
  end
  return table.concat(lines)
end
local asked = string.match(what, '^replicas (.*)$')
if asked then
  for _, node in ipairs(nodes) do
    if node.id == asked then
      return {}
    end
  end
  return { err = 'ERR Unknown node ' .. asked }
end
local function ranges(node)
  local found = {}
  for first, last in string.gmatch(node.slots, '(%d+)%-?(%d*)') do
    found[#found + 1] = { tonumber(first), tonumber(last) or tonumber(first) }
  end
  return found
end
local found = {}
if what == 'slots' then
  for _, node in ipairs(nodes) do
    for _, range in ipairs(ranges(node)) do
      found[#found + 1] = { range[1], range[2], { host, node.port, node.id } }
    end
  end
  table.sort(found, function(one, other)
    return one[1] < other[1]
  end)
  return found
end
-- Lua loses the order of a map, on which some clients of RESP2 rely.
local function fields(...)
  local pairs_of, made = { ... }, {}
  if resp ~= '3' then
    return pairs_of
  end
  for at = 1, #pairs_of, 2 do
    made[pairs_of[at]] = pairs_of[at + 1]
  end
  return { map = made }
end
for number, node in ipairs(nodes) do
  local slots = {}
  for _, range in ipairs(ranges(node)) do
    slots[#slots + 1], slots[#slots + 2] = range[1], range[2]
  end
  local one = fields('id', node.id, 'port', node.port, 'ip', host, 'endpoint', host, 'role', 'master',
    'replication-offset', 0, 'health', 'online')
  found[number] = fields('slots', slots, 'nodes', { one })
end
return found
