-- Writes by pcall. The first error is kept in `failure`; after it nothing more is written. So a client
-- without the right, or of a full server, gets Redis's own error text.
-- GIVES: failure try batches
local failure

local function try(...)
  if failure then
    return failure
  end
  local reply = redis.pcall(...)
  if type(reply) == 'table' and reply.err then
    -- Before OOM, READONLY and MISCONF, Redis 6.2 says where in the script it happened.
    reply.err = string.match(reply.err, '^@user_script: %d+: %-(.*)$') or reply.err
    failure = failure or reply
  end
  return reply
end

-- Calls act(first, last) for parts of the range that unpack can take (it fails at 8,000 values).
-- 7,200 divides by two: field and value stay together.
local function batches(first, last, act)
  for at = first, last, 7200 do
    act(at, math.min(at + 7199, last))
  end
end
