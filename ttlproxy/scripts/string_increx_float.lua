-- INCREX ... BYFLOAT: like string_increx.lua, for a float.
-- KEYS: data scratch
-- ARGV: resp how increment lowest highest expiry
-- RESULT: the value, and by how much it was changed
-- include increx
-- A bound of '' means none.

-- Returns the sum of a text and a number, computed with long doubles as by INCRBYFLOAT, or the error of that.
-- INCRBYFLOAT itself is not called: before Redis 7.0, with the allocator of libc, it may shrink the list of arguments
-- that the calls of scripts share, which Redis does not notice (src/networking.c, rewriteClientCommandArgument).
local function long_double_sum(word, number)
  redis.set_repl(redis.REPL_NONE)
  try('HSET', scratch, '', number)
  local reply = try('HINCRBYFLOAT', scratch, '', word)
  local failed = failure
  failure = nil
  try('DEL', scratch)
  failure = failed
  redis.set_repl(redis.REPL_ALL)
  return reply
end

-- Returns text; a double under RESP3.
local function reply_of(number)
  local digits = shown(number)
  return resp == '3' and { double = tonumber(digits) } or digits
end

-- Returns the number in the key, or nil and an error. Redis accepts more notations than decimal().
local function current()
  local found = decimal(text)
  if found then
    return found
  end
  local reply = long_double_sum(text, '0')
  if type(reply) == 'string' then
    return decimal(reply)
  end
  local is_infinite = string.find(reply.err, 'Infinity')
  return nil, is_infinite and { err = 'ERR value cannot be Infinity' } or reply
end

-- A sum of long doubles may miss the bound, so the bound itself is written.
local function write(_, applied, bound)
  local written = bound and shown(bound) or long_double_sum(text, shown(applied))
  if type(written) == 'table' then
    return nil, written
  end
  try('SET', data, written, 'KEEPTTL')
  return decimal(written)
end

local value, wrong = current()
return wrong or increx(value, write, reply_of)
