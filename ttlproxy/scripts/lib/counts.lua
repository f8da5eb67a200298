-- How often elements were handed on, for rules with a MAX: one sorted set in each database, whose
-- score is 2^20 times the second of the last time, plus the number. What nobody hands on for a month
-- is forgotten.
local COUNTS, STEP, MONTH = prefix .. 'counts', 1048576, 2592000

local function count_of(index, element)
  local score = redis.call('ZSCORE', COUNTS, count_name(index, element))
  return score and tonumber(score) % STEP or 0
end

-- Redis's error where somebody has put something else in its place.
local function counts_refusal()
  local reply = redis.pcall('ZSCORE', COUNTS, '')
  return type(reply) == 'table' and reply.err and reply or nil
end

local function count_set(index, element, count, now)
  local second = math.floor(now / 1000)
  return redis.pcall('ZADD', COUNTS, string.format('%.0f', second * STEP + count),
    count_name(index, element))
end

-- A few of those that are too old.
local function count_tidy(now)
  local last = string.format('%.0f', (math.floor(now / 1000) - MONTH) * STEP)
  local old = redis.call('ZRANGEBYSCORE', COUNTS, '-inf', last, 'LIMIT', 0, 100)
  if old[1] then
    redis.pcall('ZREM', COUNTS, unpack(old))
  end
end
