-- DEL, UNLINK: delete data, index and schedule entry together.
-- KEYS: schedule key...
-- ARGV: command
-- RESULT: the command's
-- The keys are all data keys, then all their indexes.
-- include try
-- include index
local count = (#KEYS - 1) / 2
-- Removes nothing, because no client's key has that name; it tells whether the client may.
try('ZREM', schedule, prefix)
local removed = 0
batches(first_key, first_key + count - 1, function(from, to)
  try(command, unpack(KEYS, from + count, to + count))
  if not failure then
    try('ZREM', schedule, unpack(KEYS, from, to))
  end
  if not failure then
    removed = removed + (tonumber(try(command, unpack(KEYS, from, to))) or 0)
  end
end)
return failure or removed
