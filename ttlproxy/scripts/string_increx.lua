-- INCREX: adds to a number as far as its bounds allow, and sets or removes its time to live.
-- What the bounds allow is decided here, digit by digit, so that a refusal writes nothing; Redis adds.
-- KEYS: data
-- ARGV: resp how increment lowest highest expiry
-- RESULT: the value, and by how much it was changed
-- include try
-- include decimal
-- how: `INT` or `FLOAT`, and `SATURATE`. A bound of '' means none; expiry: a command, a time, `ENX`.
local is_float, saturates = string.find(how, 'FLOAT'), string.find(how, 'SATURATE')
local text = redis.pcall('GET', data)
if type(text) == 'table' then
  return text
end
text = text or '0'

-- Whether an integer is below 10^15 by its digits, so that a sum of two has at most 16.
local function is_small(word)
  return word == '0' or #word <= 15 and string.find(word, '^%-?[1-9]%d*$')
end

local BEYOND_REACH = string.rep('%d', 17)

-- Nearly all counters are small, and their bounds are small too or beyond reach. Lua's own numbers take
-- a fifth of the time.
local is_plain = not is_float and is_small(text) and is_small(increment)
  and (is_small(lowest) or string.find(lowest, '^%-' .. BEYOND_REACH))
  and (is_small(highest) or string.find(highest, '^' .. BEYOND_REACH))
if is_plain then
  function decimal(word)
    return is_small(word) and tonumber(word)
  end
  function plus(one, other, factor)
    return one + factor * other
  end
  function is_less(one, other)
    return one < other
  end
  function shown(number)
    return string.format('%.0f', number)
  end
end
local zero, low, high = decimal('0'), decimal(lowest), decimal(highest)

-- An integer if Lua can hold it exactly, else text; a double for floats under RESP3.
local function reply_of(number)
  if is_plain then
    return number
  end
  local digits = shown(number)
  local as_number = tonumber(digits)
  if is_float then
    return resp == '3' and { double = as_number } or digits
  end
  local is_exact = as_number < 2 ^ 63 and string.format('%.0f', as_number) == digits
  return is_exact and as_number or digits
end

local function replies(value, applied)
  return { reply_of(value), reply_of(applied) }
end

-- The number in a text, or nil: INCRBY takes no leading zero and nothing beyond 64 bits.
local function number_in(word)
  local found = decimal(word)
  if is_float or is_plain or not found then
    return found
  end
  local is_integer = shown(found) == word and not string.find(word, '.', 1, true)
  local fits = not is_less(found, decimal('-9223372036854775808'))
    and not is_less(decimal('9223372036854775807'), found)
  return is_integer and fits and found or nil
end

-- The number in the key, or nil and an error. INCRBYFLOAT knows more ways to write a number.
local function current()
  local found = number_in(text)
  if found then
    return found
  end
  if not is_float then
    return nil, { err = 'ERR value is not an integer or out of range' }
  end
  local reply = try('INCRBYFLOAT', data, '0')
  if type(reply) == 'string' then
    return decimal(reply)
  end
  local is_infinite = string.find(reply.err, 'Infinity')
  return nil, is_infinite and { err = 'ERR value cannot be Infinity' } or reply
end

-- Adds, and returns the sum: for a float what INCRBYFLOAT's long doubles make of it.
local function add(applied, sum)
  if not is_float then
    try('INCRBY', data, shown(applied))
    return sum
  end
  local reply = try('INCRBYFLOAT', data, shown(applied))
  return decimal(type(reply) == 'string' and reply or '0')
end

local function set_expiry()
  local change, time, enx = string.match(expiry, '^(%u*) ?(%d*) ?(%u*)$')
  if change == '' or enx == 'ENX' and redis.call('PTTL', data) >= 0 then
    return
  end
  if change == 'PEXPIRE' then
    try('PEXPIRE', data, time)
  elseif change == 'PEXPIREAT' then
    try('PEXPIREAT', data, time)
  else
    try('PERSIST', data)
  end
end

local value, wrong = current()
if wrong then
  return wrong
end
local sum = plus(value, decimal(increment), 1)
local bound = high and is_less(high, sum) and high or low and is_less(sum, low) and low
if bound and not saturates then
  return replies(value, zero)
end
local applied = plus(bound or sum, value, -1)
if not (is_float or is_plain or number_in(shown(applied))) then
  return { err = 'ERR applied increment would overflow' }
end
sum = add(applied, bound or sum)
if bound and is_float and not failure and shown(sum) ~= shown(bound) then
  sum = bound
  try('SET', data, shown(bound), 'KEEPTTL')
end
set_expiry()
return failure or replies(sum, plus(sum, value, -1))
