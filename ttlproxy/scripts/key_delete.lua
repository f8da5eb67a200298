-- DEL, UNLINK: delete data, index and schedule entry together.
-- KEYS: schedule key...
-- ARGV: command
-- RESULT: the reply of the command
-- The keys are all data keys, then all their indexes.
-- include index
local removed = index_delete(command, schedule, first_key, (#KEYS - first_key + 1) / 2)
return failure or removed
