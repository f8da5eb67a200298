-- The command that counts a key's elements.
local lengths = { hash = 'HLEN', set = 'SCARD', zset = 'ZCARD', list = 'LLEN' }
