-- remove_all: removes every entry that equals one of the values; returns how many it removed. If there are many values,
-- one walk finds the entries: LTRIM removes those at the ends; the others are made equal, and one LREM removes them.
-- NEEDS: try.lua list.lua data
-- GIVES: remove_all
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
