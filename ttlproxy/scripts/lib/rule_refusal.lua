-- Returns the error if a client may not set a rule: it may not execute the action itself, or the action is impossible.
-- NEEDS: try.lua visible.lua first_dest
-- GIVES: refusal_of
local WORDS = { LPUSH = { '' }, RPUSH = { '' }, XADD = { '*', '', '' } }

local function is_unknown(command)
  local reply = redis.pcall(command)
  return string.find(reply.err, 'Unknown Redis c', 1, true)
end

-- Returns Redis's error if the client may not call a command. It is tried on a key of another type, where it changes
-- nothing.
local function refused(command)
  local probe = prefix .. const.ANNOUNCEMENT .. 'probe' .. slot_tag
  try('DEL', probe)
  try('HSET', probe, '', '')
  local reply = failure or not dry_run and redis.pcall(command, probe, unpack(WORDS[command]))
  try('DEL', probe)
  return reply and not string.find(reply.err, 'WRONGTYPE', 1, true) and reply
end

-- Before 7.0, a script cannot find out whether a client may publish to a channel.
local function refused_channel(command)
  for i = first_dest, #ARGV do
    if redis.acl_check_cmd and not redis.acl_check_cmd(command, ARGV[i], '') then
      return { err = 'NOPERM No permissions to access a channel' }
    end
  end
end

local function refusal_of(command)
  if command == 'KEEP' or command == '' then
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
