-- PERSIST: index and data lose their key-level expiry; the deadlines of elements stay.
-- KEYS: data index
-- ARGV:
-- RESULT: the command's
-- include try
-- include index
index_lasts(index)
return try('PERSIST', data)
