-- PERSIST: the index loses its key-level expiry with its data; the deadlines of elements stay.
-- KEYS: data index
-- ARGV:
-- RESULT: the command's
-- include try
try('PERSIST', index)
return failure or redis.pcall('PERSIST', data)
