-- Checks the destination of a rule.
-- GIVES: TYPES destination_refusal
local TYPES = { LPUSH = 'list', RPUSH = 'list', XADD = 'stream' }

-- Returns the error if nothing can be delivered to `dest` by that command, else nil.
local function destination_refusal(verb, dest)
  if string.sub(dest, 1, #prefix) == prefix then
    return { err = 'WRONGTYPE the destination of a rule cannot be an internal key' }
  end
  local there = redis.call('TYPE', dest).ok
  if there ~= 'none' and there ~= TYPES[verb] then
    return { err = 'WRONGTYPE the destination of a rule is a ' .. there .. ', not a ' .. TYPES[verb] }
  end
end
