-- Behind a script on one key, which is a function here: it may be called for several requests at once, because a
-- call costs Redis more than a write. Then KEYS is the schedule, and data and index of each request; ARGV has the
-- words of each behind how many these are. The reply has those of all: a request that fails stops no other.
-- If KEYS ends with the schedule once more, nobody knows whether something is due: the call ends before the first
-- request whose key needs attention, so the reply may have fewer elements than there are requests.
-- NEEDS: script
if #KEYS == 3 then
  return script(KEYS, ARGV)
end
local replies, at, last_key = {}, 1, #KEYS
local attention, now
if last_key % 2 == 0 then
  last_key = last_key - 1
  local keys = {}
  for i = 2, last_key, 2 do
    keys[#keys + 1] = KEYS[i]
  end
  -- The numbers are text in RESP2. Something else may be in the schedule's place: then nothing is known of any key.
  attention = redis.pcall('ZMSCORE', KEYS[1], unpack(keys))
  if attention.err then
    return replies
  end
  now = redis.call('TIME')
  now = now[1] * 1000 + math.floor(now[2] / 1000)
end
for i = 2, last_key, 2 do
  local due = attention and attention[i / 2]
  if due and tonumber(due) < now then
    break
  end
  local last = at + ARGV[at]
  local words = {}
  if last - at < const.LONG_PAGE then
    words = { unpack(ARGV, at + 1, last) }
  else
    for j = at + 1, last do
      words[j - at] = ARGV[j]
    end
  end
  local ran, reply = pcall(script, { KEYS[i], KEYS[i + 1], KEYS[1] }, words)
  if not ran and type(reply) ~= 'table' then
    reply = { err = 'ERR ' .. tostring(reply) }
  end
  redis.setresp(2)  -- as at the beginning; a script may have changed it, and false would be no null then
  replies[#replies + 1] = reply or false
  at = last + 1
end
return replies
