-- UNDEFER: deletes deferred commands.
-- KEYS: deferred deferred_index schedule others data
-- ARGV: id...
-- RESULT: how many existed
-- include index
-- include others
index_was_cleared(deferred, deferred_index, schedule, index_clear_all(deferred_index, ARGV, first_id))
local removed = try_all('HDEL', deferred, ARGV, first_id)
others_gone(deferred)
return failure or removed
