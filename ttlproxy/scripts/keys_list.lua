-- KEYS and SCAN without internal keys, PUBSUB CHANNELS without the proxies' channels.
-- READS
-- KEYS:
-- ARGV: command...
-- RESULT: the reply of the command; of SCAN the cursor is unchanged, and a page may have fewer names
-- include visible
local reply = redis.pcall(unpack(ARGV))
if reply.err then
  return reply
end
if type(reply[2]) == 'table' then
  return { reply[1], visible(reply[2]) }
end
local found = visible(reply)
if string.upper(ARGV[1]) == 'PUBSUB' then
  for i = #found, 1, -1 do
    local name = found[i]
    if string.sub(name, 1, #const.MEETING) == const.MEETING or string.sub(name, 1, #const.TOLD) == const.TOLD then
      table.remove(found, i)
    end
  end
end
return found
