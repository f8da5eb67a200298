-- The dry run. It fails also if Redis refuses a read; only MOVE may be refused (actual_db in lib/index.lua).
-- NEEDS: script ask noperm.lua
local reading = setmetatable({}, { __index = redis })
function reading.pcall(command, ...)
  local reply = redis.pcall(command, ...)
  local refusal = type(reply) == 'table' and reply.err and noperm(reply.err, command)
  if refusal and command ~= 'MOVE' then
    error(refusal)
  end
  return reply
end

function reading.call(...)
  local reply = reading.pcall(...)
  if type(reply) == 'table' and reply.err then
    error(reply)
  end
  return reply
end

local is_allowed, refusal = pcall(script, reading, ask)
if not is_allowed then
  return type(refusal) == 'table' and refusal or { err = refusal }
end
redis.setresp(2)
