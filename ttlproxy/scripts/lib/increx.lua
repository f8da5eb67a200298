-- INCREX of an integer or a float: the bounds are checked here, so that nothing is written if they are exceeded.
-- `text`: the value of the key. Returns WRONGTYPE if it is no string.
-- NEEDS: try.lua decimal.lua data how increment lowest highest expiry
-- GIVES: increx text
local text = redis.pcall('GET', data)
if type(text) == 'table' then
  return text
end
text = text or '0'

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

-- `value` is the value of the key. write(sum, applied, bound) writes the sum, `applied` more than the value; with
-- `bound`, the sum is that bound. It returns the number that was written, or nil and an error. reply_of(number) returns
-- a number as the client gets it.
local function increx(value, write, reply_of)
  local low, high = decimal(lowest), decimal(highest)
  local sum = plus(value, decimal(increment), 1)
  local bound = high and is_less(high, sum) and high or low and is_less(sum, low) and low
  if bound and how ~= 'SATURATE' then
    return { reply_of(value), reply_of(decimal('0')) }
  end
  sum = bound or sum
  local written, wrong = write(sum, plus(sum, value, -1), bound)
  if wrong then
    return wrong
  end
  set_expiry()
  return failure or { reply_of(written), reply_of(plus(written, value, -1)) }
end
