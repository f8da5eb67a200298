-- UNDEFER: commands that were deferred are not carried out.
-- KEYS: later later_index schedule later_keys data
-- ARGV: id...
-- RESULT: how many there were
-- include try
-- include index
local cleared, removed = 0, 0
batches(first_id, #ARGV, function(from, to)
  cleared = cleared + (tonumber(index_clear(later_index, unpack(ARGV, from, to))) or 0)
end)
index_was_cleared(later, later_index, schedule, cleared)
batches(first_id, #ARGV, function(from, to)
  removed = removed + (tonumber(try('HDEL', later, unpack(ARGV, from, to))) or 0)
end)
if redis.call('EXISTS', later) == 0 then
  try('SREM', later_keys, later)
end
return failure or removed
