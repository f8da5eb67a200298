-- Type -> the command that counts the elements of a key.
-- GIVES: lengths
local lengths = { hash = 'HLEN', set = 'SCARD', zset = 'ZCARD', list = 'LLEN' }
