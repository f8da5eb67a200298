-- has() and remove() for a list, whose equal values are one element. has() returns 1 or 0, or Redis's error. LPOS and
-- LREM walk along the list for each value, at 35 ns an entry. A walk by this script costs 280 ns an entry, for any
-- number of values (Redis 7.0, lists of 10^4 to 10^6 entries).
-- NEEDS: try.lua data
-- GIVES: has remove remove_all walk FEW looked_for look_for
local FEW = 8
local looked_for = {}

-- Calls see(value, position) for each entry from one position to another.
local function walk(from, to, see)
  for at = from, to, const.LONG_PAGE do
    local page = redis.call('LRANGE', data, at, math.min(at + (const.LONG_PAGE - 1), to))
    for offset = 1, #page do
      see(page[offset], at + offset - 1)
    end
  end
end

-- Counts the copies of the values from number `first` on in one walk, if that is cheaper.
local function look_for(values, first)
  if #values - first < FEW then
    return
  end
  for i = first, #values do
    looked_for[values[i]] = 0
  end
  walk(0, redis.call('LLEN', data) - 1, function(value)
    if looked_for[value] then
      looked_for[value] = looked_for[value] + 1
    end
  end)
end

local function has(element)
  if looked_for[element] then
    return math.min(looked_for[element], 1)
  end
  local found = redis.pcall('LPOS', data, element)
  return type(found) == 'table' and found or found and 1 or 0
end

local function remove_one_by_one(values)
  local removed = 0
  for _, value in ipairs(values) do
    removed = removed + (tonumber(try('LREM', data, 0, value)) or 0)
  end
  return removed
end

-- Returns the positions of all entries that equal one of the values, and the length of the list.
local function places(values)
  local wanted, found, length = {}, {}, redis.call('LLEN', data)
  for _, value in ipairs(values) do
    wanted[value] = true
  end
  walk(0, length - 1, function(value, place)
    if wanted[value] then
      found[#found + 1] = place
    end
  end)
  return found, length
end

-- Removes every entry that equals one of the values; returns how many it removed. If there are many values, one walk
-- finds the entries: LTRIM removes those at the ends; the others are made equal, and one LREM removes them.
local function remove_all(values)
  if #values <= FEW then
    return remove_one_by_one(values)
  end
  -- The shortest value replaces the others, so that the list never grows. It is removed first, because a full server
  -- allows LREM, and after that LSET too.
  local shortest = values[1]
  for _, value in ipairs(values) do
    shortest = #value < #shortest and value or shortest
  end
  local removed = remove_one_by_one({ shortest })
  local found, length = places(values)
  local first, last = 1, #found
  while found[first] == first - 1 do
    first = first + 1
  end
  while last >= first and length - found[last] == #found - last + 1 do
    last = last - 1
  end
  for i = first, last do
    try('LSET', data, found[i], shortest)
  end
  try('LTRIM', data, first - 1, last - #found - 1)
  remove_one_by_one({ shortest })
  return removed + #found
end

local function remove(elements)
  for _, element in ipairs(elements) do
    looked_for[element] = looked_for[element] and 0
  end
  return remove_all(elements)
end
