-- Counts how often elements of a key were delivered, for rules with a MAX. The counts are in a sorted set. A score is
-- const.COUNT_STEP times the second of the last delivery, plus the count. An entry is removed a month after that.
-- NEEDS: index.lua others.lua
-- GIVES: count_of counts_refusal count_set count_forget counts_tidy
local MONTH = 2592000

local function count_of(index, element)
  local score = redis.call('ZSCORE', beside(index, const.COUNTS), element)
  return score and tonumber(score) % const.COUNT_STEP or 0
end

-- Returns Redis's error if a client has put a key of another type in the place of the counts, else nil.
local function counts_refusal(index)
  local reply = redis.pcall('ZSCORE', beside(index, const.COUNTS), '')
  return type(reply) == 'table' and reply.err and reply or nil
end

local function count_set(index, element, count, now)
  local counts, second = beside(index, const.COUNTS), math.floor(now / 1000)
  others_add(counts)
  return redis.pcall('ZADD', counts, string.format('%.0f', second * const.COUNT_STEP + count), element)
end

local function count_forget(index, element)
  local counts = beside(index, const.COUNTS)
  redis.pcall('ZREM', counts, element)
  others_gone(counts)
end

-- Removes up to 100 entries that are too old.
local function counts_tidy(counts, now)
  local last = string.format('%.0f', (math.floor(now / 1000) - MONTH) * const.COUNT_STEP)
  local old = redis.pcall('ZRANGEBYSCORE', counts, '-inf', last, 'LIMIT', 0, const.PAGE)
  if old[1] then
    redis.pcall('ZREM', counts, unpack(old))
    others_gone(counts)
  end
end
