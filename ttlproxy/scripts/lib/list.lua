-- has() and remove() for a list, whose equal values are one element. has() returns 1 or 0, or Redis's error. LPOS and
-- LREM walk along the list for each value, at 35 ns an entry. A walk by this script costs 280 ns an entry, for any
-- number of values (Redis 7.0, lists of 10^4 to 10^6 entries).
-- NEEDS: data
-- GIVES: has remove walk FEW looked_for look_for
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

-- include list_remove
local function remove(...)
  local elements = { ... }
  for _, element in ipairs(elements) do
    looked_for[element] = looked_for[element] and 0
  end
  return remove_all(elements)
end
