-- TIME stands still in a script from Redis 7.2 on; from 7.4 on, and in Valkey 8, there is os.clock instead: CPU time
-- of the server in s. `timer` reads it, nil before; `began`: what it was.
-- GIVES: timer began
local timer = rawget(_G, 'os')
timer = timer and timer.clock
local began = timer and timer()
