-- PERSIST: the key does not expire any more; the deadlines of elements stay.
-- KEYS: data index schedule
-- ARGV: db
-- RESULT: the reply of the command
-- include clock
-- include index
return index_expire(db, prefix, data, index, schedule, now, 'PERSIST')
