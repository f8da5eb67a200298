-- EXPIRE and its family: the index notes when its key expires.
-- KEYS: data index schedule
-- ARGV: db command argument...
-- RESULT: the command's
-- include try
-- include clock
-- include index
return index_expire(db, prefix, data, index, schedule, now, command, unpack(ARGV, first_argument))
