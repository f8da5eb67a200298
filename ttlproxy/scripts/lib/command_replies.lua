-- Turns JSON about our commands into replies. RESP3 has sets and maps, and Lua loses their order; a
-- client that is certainly in RESP2 gets arrays in Redis's own order.
-- NEEDS: resp json
-- GIVES: is_resp3 reply_of our_commands ask
local is_resp3 = resp == '3'

local function reply_of(value)
  if type(value) ~= 'table' or value.ok then
    return value
  end
  local found = {}
  if value.set then
    for _, element in ipairs(value.set) do
      if is_resp3 then
        found[reply_of(element)] = true
      else
        found[#found + 1] = reply_of(element)
      end
    end
    return is_resp3 and { set = found } or found
  end
  if value.map then
    for _, entry in ipairs(value.map) do
      if is_resp3 then
        found[entry[1]] = reply_of(entry[2])
      else
        found[#found + 1] = entry[1]
        found[#found + 1] = reply_of(entry[2])
      end
    end
    return is_resp3 and { map = found } or found
  end
  for _, element in ipairs(value) do
    found[#found + 1] = reply_of(element)
  end
  return found
end

local our_commands = cjson.decode(json)

-- Calls COMMAND in the RESP version of the client. Lua has `false` for a null in the reply, and Redis makes a null of
-- it again, under RESP3 only because the script ends in RESP2.
local function ask(...)
  if is_resp3 then
    redis.setresp(3)
  end
  local reply = redis.pcall('COMMAND', ...)
  redis.setresp(2)
  return reply
end
