-- `now`: the server's clock in ms, read once.
-- GIVES: now time
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
