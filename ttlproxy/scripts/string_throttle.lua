-- CL.THROTTLE: the generic cell rate algorithm, exactly. A time is a pair: whole microseconds, and the rest in units of
-- 1/count us, because a token comes every `period / count`. The value of the key is the time when the bucket will be
-- full again, its count, and when it was written.
-- KEYS: data
-- ARGV: how
-- RESULT: limited, limit, remaining, seconds until a retry, or -1, seconds until the bucket is full
-- include try
-- how: limit, count, and the times of this request, of all tokens, and of one
local numbers = {}
for word in string.gmatch(how, '%d+') do
  numbers[#numbers + 1] = tonumber(word)
end
local limit, count = numbers[1], numbers[2]
local cost = { numbers[3], numbers[4] }
local burst = { numbers[5], numbers[6] }
local interval = { numbers[7], numbers[8] }

-- Returns number * factor / divisor: the whole part and the remainder. All are below 2^31, so all steps are exact.
local function scaled(number, factor, divisor)
  local high = math.floor(number / 65536)
  local product = high * factor
  local whole = math.floor(product / divisor)
  local rest = (product - whole * divisor) * 65536 + (number - high * 65536) * factor
  local more = math.floor(rest / divisor)
  return whole * 65536 + more, rest - more * divisor
end

local function sum(one, other)
  local us, rest = one[1] + other[1], one[2] + other[2]
  return rest >= count and { us + 1, rest - count } or { us, rest }
end

local function difference(one, other)
  local us, rest = one[1] - other[1], one[2] - other[2]
  return rest < 0 and { us - 1, rest + count } or { us, rest }
end

local function is_before(one, other)
  return difference(one, other)[1] < 0
end

local clock = redis.call('TIME')
local now = { clock[1] * 1000000 + clock[2], 0 }

-- Returns the time when the bucket is full, from the key; rounded up if it was written for another count. Also returns
-- by how many us the clock is before the time of that write, because it was set back; then as many tokens are missing
-- as at that time.
local function full_at()
  local text = redis.pcall('GET', data)
  if type(text) ~= 'string' then
    return text, 0
  end
  local us, rest, of, written = string.match(text, '^(%d+) (%d+) (%d+) (%d+)$')
  if not us then
    return { err = 'Cell error: invalid digit found in string' }
  end
  local parts, left = scaled(tonumber(rest), count, tonumber(of))
  local back = math.max(tonumber(written) - now[1], 0)
  return sum({ tonumber(us) - back, 0 }, { 0, left > 0 and parts + 1 or parts }), back
end

-- Returns the number of whole tokens that come in this time.
local function tokens(time)
  if time[1] < 0 then
    return 0
  end
  local function lasting(number)
    local us, rest = scaled(number, interval[2], count)
    return { number * interval[1] + us, rest }
  end
  local found = math.floor((time[1] + time[2] / count) / (interval[1] + interval[2] / count))
  while is_before(time, lasting(found)) do
    found = found - 1
  end
  while not is_before(time, lasting(found + 1)) do
    found = found + 1
  end
  return found
end

-- Rounds as redis-cell does: milliseconds down, then seconds up.
local function seconds(time)
  return math.ceil(math.floor(time[1] / 1000) / 1000)
end

local full, back = full_at()
if full and full.err then
  return full
end
if not full or is_before(full, now) then
  full = now
end
local after = sum(full, cost)
local wait = difference(difference(after, burst), now)
local is_limited = wait[1] > 0 or wait[1] == 0 and wait[2] > 0
local is_granted = not is_limited and is_before(full, after)
if is_granted then
  full = after
end
if is_granted or back > 0 and is_before(now, full) then
  local text = string.format('%.0f %.0f %.0f %.0f', full[1], full[2], count, now[1])
  try('SET', data, text, 'PXAT', string.format('%.0f', math.ceil((full[1] + (full[2] > 0 and 1 or 0)) / 1000)))
end
local missing = difference(full, now)
return failure or {
  is_limited and 1 or 0,
  limit,
  tokens(difference(burst, missing)),
  is_limited and not is_before(burst, cost) and seconds(wait) or -1,
  seconds(missing),
}
