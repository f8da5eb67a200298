-- DEFER: stores a command that will be executed at its due time.
-- KEYS: deferred deferred_index schedule others data
-- ARGV: origin how id signature word...
-- RESULT: the id; null if the condition is not met
-- include words
-- include deadline
-- include index
-- include others
-- include deferred_names
local command = { unpack(ARGV, first_word) }
-- The ids that are generated sort as bytes in the order of their arrival.
if flag == '0' then
  local number = time[1] * 1000000 + time[2]
  repeat
    id, number = string.format('%016.0f', number), number + 1
  until redis.call('HEXISTS', deferred, id) == 0
end

-- A client may defer only commands that it may call now. Redis 6.2 has no acl_check_cmd: there the command is tried on
-- a key of another type, or on a channel without subscribers.
local function may_run()
  local name, absent = command[1], absent_deferred_key(deferred)
  if redis.acl_check_cmd then
    if not redis.acl_check_cmd(unpack(command)) then
      try(unpack(command))
    end
  elseif name == 'PUBLISH' or name == 'SPUBLISH' then
    try(name, redis.sha1hex(deferred .. time[1] .. time[2]), '')
  elseif name == 'DEL' or name == 'UNLINK' then
    try(name, absent)
  else
    try('SET', absent, '')
    local words = { name, absent, unpack(command, 3) }
    local reply = failure or not dry_run and redis.pcall(unpack(words))
    try('DEL', absent)
    failure = failure or reply and not string.find(reply.err, 'WRONGTYPE', 1, true) and reply or nil
  end
end

local old = index_get(deferred_index, id)
local refusals = {
  NX = old,
  XX = not old,
  GT = old and old >= at,
  LT = old and old <= at,
}
may_run()
if failure then
  return failure
elseif refusals[condition] then
  return false
end
local before = index_first(deferred_index)
index_set(deferred_index, id, at)
index_was_set(db, prefix, deferred, deferred_index, schedule, now, before, at)
try('HSET', deferred, id, cmsgpack.pack(signature, command))
if not failure and not before then
  others_add(deferred)
end
return failure or id
