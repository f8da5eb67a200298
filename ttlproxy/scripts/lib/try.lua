-- Writes by pcall. The first error is in `failure`; after it nothing more is written. So a client without permission,
-- or of a full server, gets the text of Redis's error. In a dry run nothing is written: Redis is asked whether the
-- client may call the command (lib/dry_run.lua).
-- GIVES: failure try batches try_all
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
    -- In the text of OOM, READONLY and MISCONF, Redis 6.2 begins with the line of the script.
    reply.err = string.match(reply.err, '^@user_script: %d+: %-(.*)$') or reply.err
    failure = failure or reply
  end
  return reply
end

-- Calls act(first, last) for parts of the range that are short enough for unpack. UNPACK_MAX is a multiple of 2 and 3,
-- so the words of one element stay together.
local function batches(first, last, act)
  for at = first, last, const.UNPACK_MAX do
    act(at, math.min(at + (const.UNPACK_MAX - 1), last))
  end
end

-- Calls a command on a key with all of `words` from number `first` on, in batches; returns the sum of its replies, or
-- the last one if that is no number.
local function try_all(command, key, words, first)
  local sum = 0
  batches(first, #words, function(from, to)
    local reply = try(command, key, unpack(words, from, to))
    sum = type(reply) == 'number' and sum + reply or reply
  end)
  return sum
end
