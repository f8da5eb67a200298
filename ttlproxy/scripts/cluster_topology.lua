-- CLUSTER NODES, SHARDS or SLOTS with one node, which is the proxy.
-- READS
-- KEYS:
-- ARGV: host port what
-- RESULT: the command's
local LAST = const.SLOTS - 1
local id = redis.pcall('CLUSTER', 'MYID')
if type(id) == 'table' then
  return id
end
if what == 'slots' then
  return { { 0, LAST, { host, tonumber(port), id } } }
elseif what == 'nodes' then
  local bus = port + const.BUS
  return string.format('%s %s:%s@%d myself,master - 0 0 1 connected 0-%d\n', id, host, port, bus, LAST)
end
local node = { id = id, port = tonumber(port), ip = host, endpoint = host, role = 'master' }
node['replication-offset'], node.health = 0, 'online'
return { { map = { slots = { 0, LAST }, nodes = { { map = node } } } } }
