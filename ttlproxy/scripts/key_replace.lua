-- Any command that can replace whole keys: deletes the indexes of replaced keys.
-- KEYS: schedule key...
-- ARGV: count word...
-- RESULT: the reply of the command
-- The keys are the `count` keys that may be replaced, keys that are only read, then the indexes of all.
-- include index
redis.setresp(3)
local all = (#KEYS - first_key + 1) / 2
local last = first_key + count - 1
local function kind(key)
  return redis.call('TYPE', key).ok
end

local before = {}
for i = first_key, last do
  index_guard(KEYS[i + all])
  before[i] = kind(KEYS[i])
end
if failure then
  return failure
end
local reply = try(unpack(ARGV, first_word))
if type(reply) == 'table' and reply.err then
  -- include noperm
  return noperm(reply.err, ARGV[first_word]) or reply
end
-- A key that still has its type was replaced too, unless the reply says no, for example to SET NX.
local done = reply and reply ~= 0
for i = first_key, last do
  local after = kind(KEYS[i])
  if done or after ~= before[i] or after == 'none' then
    index_drop(KEYS[i], KEYS[i + all], schedule)
  end
end
return failure or reply
