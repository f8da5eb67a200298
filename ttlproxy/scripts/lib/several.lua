-- The end of a script on one key, which is the function `script` here: it may be called for several requests at once,
-- because a call costs Redis more than a write. Then KEYS is the schedule, and data and index of each request; ARGV has
-- for each request the number of its words, and these. The reply is a list of all replies; after a request that fails,
-- the others go on. If KEYS ends with the schedule once more, a key may need attention: the call ends before the first
-- request whose key does, so the list may be shorter than there are requests.
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
  -- In RESP2 the numbers are text. A key of another type may be in the place of the schedule: then no request runs.
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
