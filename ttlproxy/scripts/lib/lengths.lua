-- The command that counts a key's elements.
-- GIVES: lengths
local lengths = { hash = 'HLEN', set = 'SCARD', zset = 'ZCARD', list = 'LLEN' }
