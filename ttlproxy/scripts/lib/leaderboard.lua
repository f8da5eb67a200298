-- A leaderboard is one sorted set. Each member has two entries. All entries have the score 0, so Redis sorts them by
-- their bytes, the rows before the places:
--   row    'r' spot member            the members, best first
--   place  's' length member spot     finds the row of a member
-- A spot has 15 bytes: 8 of the standing, which is 2^63-1 minus the score, and 7 of the arrival, which is one more than
-- that of the last member with the same standing.
-- NEEDS: try.lua data
-- GIVES: rows STANDING size place_of row_of spot_of rank_of standing_of halves is_better score_of move
local ROW, PLACE, STANDING, SPOT = 'r', 's', 8, 15

-- The number of entries. Returns WRONGTYPE if the key is not a leaderboard.
local size = redis.pcall('ZCARD', data)
if type(size) == 'table' then
  return size
end
if size > 0 then
  -- REV finds the last entry at once; by its rank, Redis searches for it.
  local last = redis.call('ZRANGE', data, 0, 0, 'REV', 'WITHSCORES')
  if size % 2 == 1 or last[2] ~= '0' or string.sub(last[1], 1, 1) ~= PLACE then
    return { err = 'WRONGTYPE Operation against a key holding the wrong kind of value' }
  end
end

local function place_of(member)
  return PLACE .. struct.pack('>I4', #member) .. member
end

local function row_of(member, spot)
  return ROW .. spot .. member
end

-- Returns the spot of a member; nil if it is not in the leaderboard.
local function spot_of(member)
  local place = place_of(member)
  local entry = redis.call('ZRANGEBYLEX', data, '[' .. place, '+', 'LIMIT', 0, 1)[1]
  if entry and string.sub(entry, 1, #place) == place then
    return string.sub(entry, #place + 1)
  end
end

local function rank_of(member, spot)
  return redis.call('ZRANK', data, row_of(member, spot))
end

local function standing_of(spot)
  return string.sub(spot, 1, STANDING)
end

-- Returns a standing as two numbers, because numbers of Lua are exact only up to 2^53. The smaller standing is better.
local function halves(standing)
  return struct.unpack('>I4I4', standing)
end

-- Returns whether one standing is better than another. Lua compares strings by the locale, so numbers are used.
local function is_better(one, other)
  local high, low = halves(one)
  local other_high, other_low = halves(other)
  return high < other_high or high == other_high and low < other_low
end

-- Returns the score of a standing, in decimal digits.
local function score_of(standing)
  local high, low = halves(standing)
  high, low = 2 ^ 31 - 1 - high, 2 ^ 32 - 1 - low
  if math.abs(high) < 2 ^ 20 then
    return string.format('%.0f', high * 2 ^ 32 + low)
  end
  local sign = ''
  if high < 0 then
    sign, high, low = '-', -high, -low
  end
  local upper = math.floor(high / 10 ^ 6)
  local lower = high % 10 ^ 6 * 2 ^ 32 + low
  upper = upper * 2 ^ 32 + math.floor(lower / 10 ^ 6)
  return sign .. string.format('%.0f%06.0f', upper, lower % 10 ^ 6)
end

-- Returns the spot of the next arrival at a standing.
local function next_spot(standing)
  local first = ROW .. standing
  local last = redis.call(
    'ZREVRANGEBYLEX', data, '(' .. first .. '\255', '[' .. first, 'LIMIT', 0, 1)[1]
  local arrival = last and struct.unpack('>I7', last, #first + 1) + 1 or 0
  return standing .. struct.pack('>I7', arrival)
end

-- Moves a member to a standing, from its spot if it has one. The new entries are added before the old ones are removed,
-- because Redis deletes an empty key; commands that Redis may refuse are tried first.
local function move(member, standing, spot)
  local arrived = next_spot(standing)
  if spot then
    try('ZADD', data, 'XX', 0, '')
    try('ZREM', data, '')
  end
  try('ZADD', data, 0, row_of(member, arrived), 0, place_of(member) .. arrived)
  if spot then
    try('ZREM', data, row_of(member, spot), place_of(member) .. spot)
  end
end

-- Returns [rank, member, score] of each member from one rank to another.
local function rows(from, to)
  from, to = math.max(from, 0), math.min(to, size / 2 - 1)
  local found = {}
  if from <= to then
    for offset, row in ipairs(redis.call('ZRANGE', data, from, to)) do
      local member = string.sub(row, #ROW + SPOT + 1)
      local standing = string.sub(row, #ROW + 1, #ROW + STANDING)
      found[offset] = { from + offset - 1, member, score_of(standing) }
    end
  end
  return found
end
