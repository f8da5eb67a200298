-- HINCRBY, HINCRBYFLOAT in a key with a rule of ONWRITE: a new field gets the deadline of the rule; a field that exists
-- keeps its own, except with REFRESH.
-- KEYS: data index schedule
-- ARGV: origin how field value
-- RESULT: the reply of the command
-- include keeps_all
local old = keeps_all and redis.pcall('HGET', data, field)
if type(old) == 'string' and type(redis.pcall('ZCARD', index)) == 'number' then
  local command = string.upper(string.match(origin, '%S+$'))
  local sum = (tonumber(old) or 0) + (tonumber(value) or 0)
  if command ~= 'HINCRBY' or math.abs(sum) < 2 ^ 53 then
    local reply = redis.pcall(command, data, field, value)
    if type(reply) ~= 'table' then
      return reply
    end
  end
end
-- include rule
-- include deadline
-- include hash
-- include maxlen
-- include rule_date
-- include native
local command = string.upper(name)
-- Redis checks the number before the type: for a key of another type, the error is that of the command.
local seen = has('')
if type(seen) == 'table' then
  if string.find(seen.err, 'WRONGTYPE', 1, true) then
    try(command, data, field, value)
  end
  return failure or seen
end
local there = has(field)
if command == 'HINCRBY' then
  -- Lua would round a reply beyond 2^53. Redis itself refuses sums that are not 64-bit integers.
  local old = redis.call('HGET', data, field) or '0'
  local sum = (tonumber(old) or 0) + (tonumber(value) or 0)
  if math.abs(sum) >= 2 ^ 53 then
    -- include int64
    local one, other = int64(old), int64(value)
    if one and other and int64(shown(plus(one, other, 1))) then
      return { err = 'ERR ttlproxy cannot do HINCRBY beyond 2^53 where a rule of ONWRITE matches the key' }
    end
  end
end
if there == 0 and not has_room({ field }, 1) then
  return too_many()
end
rule_guard()
local reply = try(command, data, field, value)
if not failure and (there == 0 or not keeps) then
  rule_date(field)
end
return failure or reply
