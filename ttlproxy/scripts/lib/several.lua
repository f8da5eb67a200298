-- Behind a script on one key, which is a function here: it may be called for several requests at once, because a
-- call costs Redis more than a write. Then KEYS is the schedule, and data and index of each request; ARGV has the
-- words of each behind how many these are. The reply has those of all: a request that fails stops no other.
-- NEEDS: script
if #KEYS == 3 then
  return script(KEYS, ARGV)
end
local replies, at = {}, 1
for i = 2, #KEYS, 2 do
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
