-- A verbatim string, which is a bulk string under RESP2. Scripts of 6.2 have none, so there they call Redis in RESP2.
-- GIVES: verbatim plain
local has_verbatim = redis.REDIS_VERSION_NUM ~= nil
if has_verbatim then
  redis.setresp(3)
end

local function plain(reply)
  return type(reply) == 'table' and reply.verbatim_string.string or reply
end

local function verbatim(text)
  return has_verbatim and { verbatim_string = { format = 'txt', string = text } } or text
end
