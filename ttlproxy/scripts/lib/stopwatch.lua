-- TIME stands still in scripts of newer servers (Redis 8.2 and Valkey 9.1; not Redis 7.0), which have os.clock instead:
-- the CPU time of the server in s. `timer` reads it, nil on older ones; `began`: what it was.
-- GIVES: timer began
local timer = rawget(_G, 'os')
timer = timer and timer.clock
local began = timer and timer()
