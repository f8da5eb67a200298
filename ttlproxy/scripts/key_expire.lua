-- EXPIRE, PEXPIRE, EXPIREAT, PEXPIREAT, PERSIST: also writes to the index when the key expires; the deadlines of
-- elements stay.
-- KEYS: data index schedule
-- ARGV: db command argument...
-- RESULT: the reply of the command
-- include clock
-- include index
return index_expire(db, prefix, data, index, schedule, now, command, unpack(ARGV, first_argument))
