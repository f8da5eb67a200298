-- Why the client may not have something done that it may not do itself, or that nobody can.
local WORDS = { LPUSH = { '' }, RPUSH = { '' }, XADD = { '*', '', '' } }

local function is_unknown(command)
  local reply = redis.pcall(command)
  return string.find(reply.err, 'Unknown Redis c', 1, true)
end

-- On a key of another type it does nothing, if it may be called at all.
local function refused(command)
  local probe = prefix .. '!probe'
  try('DEL', probe)
  try('HSET', probe, '', '')
  local reply = failure or redis.pcall(command, probe, unpack(WORDS[command]))
  try('DEL', probe)
  return not string.find(reply.err, 'WRONGTYPE', 1, true) and reply
end

-- Before 7.0, Redis does not tell who may publish where.
local function refused_channel(command)
  for i = first_dest, #ARGV do
    if redis.acl_check_cmd and not redis.acl_check_cmd(command, ARGV[i], '') then
      return { err = 'NOPERM No permissions to access a channel' }
    end
  end
end

local function refusal_of(command)
  if command == 'KEEP' then
    return
  elseif is_unknown(command) then
    return { err = "ERR unknown command '" .. command .. "'" }
  elseif not WORDS[command] then
    return refused_channel(command)
  end
  for i = first_dest, #ARGV do
    if is_internal(ARGV[i]) then
      return { err = 'ERR the destination is an internal key of ttlproxy' }
    end
  end
  return refused(command)
end
