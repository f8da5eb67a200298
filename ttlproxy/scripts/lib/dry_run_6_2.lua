-- lib/dry_run.lua for Redis before 7.0, which has no acl_check_cmd: each command is tried in a form that Redis rejects
-- only after it has checked the client's permissions, or that changes nothing.
-- NEEDS: dry_run_replies.lua noperm.lua script index only_key

-- A key that does not exist, and that the client may access. In a script without an index it is the key itself: a
-- leaderboard has no member '-', and scripts on strings use it only for PERSIST, their last write.
local nowhere = index and prefix .. const.NONE .. string.sub(index, #prefix + 1)
  or only_key
  or prefix .. const.ANNOUNCEMENT .. 'nowhere' .. slot_tag

-- Command -> its words: K is the key of the call, N the key that does not exist. A command that is not here is the
-- first write of its script, so it need not be tried.
local trials = {
  COPY = 'K K -',
  DEL = 'N',
  EXPIRE = 'K -',
  EXPIREAT = 'K -',
  GEOADD = 'K NX XX 0 0 -',
  HDEL = 'N -',
  HINCRBY = 'K - -',
  HINCRBYFLOAT = 'K - -',
  HMSET = 'K - - -',
  HSET = 'K - - -',
  INCRBY = 'K -',
  LINSERT = 'K - - -',
  LMOVE = 'K K - -',
  LPOP = 'K -',
  LPUSHX = 'N -',
  LREM = 'K - -',
  LSET = 'K - -',
  LTRIM = 'K - -',
  MOVE = 'K -',
  PERSIST = 'N',
  PEXPIRE = 'K -',
  PEXPIREAT = 'K -',
  RENAME = 'N N',
  RENAMENX = 'N N',
  RPOP = 'K -',
  RPOPLPUSH = 'N N',
  RPUSHX = 'N -',
  SET = 'K - NX XX',
  SMOVE = 'N N -',
  SPOP = 'K -',
  SREM = 'N -',
  SWAPDB = '- -',
  UNLINK = 'N',
  ZADD = 'K NX XX 0 -',
  ZINCRBY = 'K - -',
  ZPOPMAX = 'K -',
  ZPOPMIN = 'K -',
  ZREM = 'N -',
  ZREMRANGEBYLEX = 'K - -',
  ZREMRANGEBYRANK = 'K - -',
  ZREMRANGEBYSCORE = 'K - -',
}
-- Commands that have no such form are tried on a key of another type.
local creators = { HSETNX = { '', '' }, LPUSH = { '' }, RPUSH = { '' }, SADD = { '' } }

-- Returns Redis's error if Redis checks for it before it executes a command, else nil.
local function refusal_in(text, command)
  local refusal = noperm(text, command)
  if refusal then
    return refusal
  end
  text = plain_text(text)
  for _, code in ipairs({ 'OOM ', 'READONLY ', 'MISCONF ', 'NOREPLICAS ', 'Unknown Redis ' }) do
    if string.sub(text, 1, #code) == code then
      return { err = text }
    end
  end
end

-- Tries a command on the index, whose type is not that of the data, or on a string. If the client may not write that
-- string, it may not set the first deadline of a key either, and the command is the first write.
local function tried_elsewhere(command)
  local there = index and redis.pcall('EXISTS', index)
  if type(there) == 'table' then
    return there
  elseif there == 1 then
    return redis.pcall(command, index, unpack(creators[command]))
  end
  local probe = prefix .. const.ANNOUNCEMENT .. 'probe' .. slot_tag
  local reply = redis.pcall('DEL', probe)
  if type(reply) == 'number' and redis.pcall('SET', probe, '').ok then
    reply = redis.pcall(command, probe, unpack(creators[command]))
    redis.pcall('DEL', probe)
    return reply
  end
end

local untried

local function tried(command, key)
  if not trials[command] then
    untried = command
    return
  end
  local words = {}
  for word in string.gmatch(trials[command], '%S+') do
    words[#words + 1] = word == 'K' and key or word == 'N' and nowhere or word
  end
  return redis.pcall(command, unpack(words))
end

local function ask(name, key)
  local command = string.upper(name)
  local reply = (creators[command] and tried_elsewhere or tried)(command, key)
  local refusal = type(reply) == 'table' and reply.err and refusal_in(reply.err, command)
  if refusal then
    error(refusal)
  end
  return replies[command] or 1
end

-- include dry_run_end
local reply = script(redis)
return type(reply) == 'table' and reply.err and noperm(reply.err, untried) or reply
