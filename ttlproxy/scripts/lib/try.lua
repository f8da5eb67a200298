-- Writes by pcall. The first error is kept in `failure`; after it nothing more is written. So a client
-- without the right, or of a full server, gets Redis's own error text. In a dry run nothing is written:
-- Redis is asked whether the client may do it (lib/dry_run.lua).
-- GIVES: failure try batches
local failure

local function try(...)
  if failure then
    return failure
  end
  if dry_run then
    return dry_run(...)
  end
  local reply = redis.pcall(...)
  if type(reply) == 'table' and reply.err then
    -- Before OOM, READONLY and MISCONF, Redis 6.2 says where in the script it happened.
    reply.err = string.match(reply.err, '^@user_script: %d+: %-(.*)$') or reply.err
    failure = failure or reply
  end
  return reply
end

-- Calls act(first, last) for parts of the range that unpack can take. Fields stay with their values.
local function batches(first, last, act)
  for at = first, last, const.UNPACK_MAX do
    act(at, math.min(at + (const.UNPACK_MAX - 1), last))
  end
end
