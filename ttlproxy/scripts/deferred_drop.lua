-- UNDEFER: deletes deferred commands.
-- KEYS: deferred deferred_index schedule others data
-- ARGV: id...
-- RESULT: how many existed
-- include index
-- include others
local cleared, removed = 0, 0
batches(first_id, #ARGV, function(from, to)
  cleared = cleared + (tonumber(index_clear(deferred_index, unpack(ARGV, from, to))) or 0)
end)
index_was_cleared(deferred, deferred_index, schedule, cleared)
batches(first_id, #ARGV, function(from, to)
  removed = removed + (tonumber(try('HDEL', deferred, unpack(ARGV, from, to))) or 0)
end)
others_gone(deferred)
return failure or removed
