-- INCREX: adds to an integer as far as its bounds allow, and sets or removes its time to live.
-- KEYS: data
-- ARGV: how increment lowest highest expiry
-- RESULT: the value, and by how much it was changed
-- include int64
-- include increx
-- how: `SATURATE`, or ''; expiry: a command, a time, `ENX`.

-- Returns whether an integer has at most 15 digits, so that a sum of two has at most 16, and numbers of Lua are exact.
local function is_small(word)
  return word == '0' or #word <= 15 and string.find(word, '^%-?[1-9]%d*$')
end

local BEYOND_REACH = string.rep('%d', 17)

-- Nearly all counters are small, and their bounds are small too, or too far away to be reached. With numbers of Lua the
-- script takes a fifth of the time.
local is_plain = is_small(text) and is_small(increment)
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

-- Returns an integer if a number of Lua is exact, else text.
local function reply_of(number)
  if is_plain then
    return number
  end
  local digits = shown(number)
  local as_number = tonumber(digits)
  local is_exact = as_number < 2 ^ 63 and string.format('%.0f', as_number) == digits
  return is_exact and as_number or digits
end

local function write(sum, applied)
  local change = shown(applied)
  if not (is_plain or int64(change)) then
    return nil, { err = 'ERR applied increment would overflow' }
  end
  try('INCRBY', data, change)
  return sum
end

local value = is_plain and decimal(text) or int64(text)
if not value then
  return { err = 'ERR value is not an integer or out of range' }
end
return increx(value, write, reply_of)
