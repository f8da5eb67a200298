-- In scripts of newer servers (Redis 8.2 and Valkey 9.1; not Redis 7.0) TIME does not advance; these have os.clock
-- instead, the CPU time of the server in s. `passed_us()`: how long the script has taken so far.
-- NEEDS: clock.lua
-- GIVES: passed_us
local timer = rawget(_G, 'os')
timer = timer and timer.clock
local began = timer and timer()

local function passed_us()
  if timer then
    return math.floor((timer() - began) * 1000000)
  end
  local clock = redis.call('TIME')
  return (clock[1] - time[1]) * 1000000 + clock[2] - time[2]
end
