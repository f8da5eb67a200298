-- Removes every entry that equals one of the values; returns how many there were. The places of many
-- are found in one walk: those at the ends are trimmed, the others are made equal and go together.
local function remove_from_list(values)
  local positions = {}
  if #values <= FEW then
    local removed = 0
    for _, value in ipairs(values) do
      removed = removed + redis.call('LREM', data, 0, value)
    end
    return removed
  end
  -- The shortest takes the place of others, so that the list never grows.
  local wanted, shortest = {}, values[1]
  for _, value in ipairs(values) do
    wanted[value] = true
    shortest = #value < #shortest and value or shortest
  end
  local length = redis.call('LLEN', data)
  walk(0, length - 1, function(value, position)
    if wanted[value] then
      positions[#positions + 1] = position
    end
  end)
  local first, last = 1, #positions
  while positions[first] == first - 1 do
    first = first + 1
  end
  while last >= first and length - positions[last] == #positions - last + 1 do
    last = last - 1
  end
  for i = first, last do
    redis.call('LSET', data, positions[i], shortest)
  end
  redis.call('LTRIM', data, first - 1, last - #positions - 1)
  if first <= last then
    redis.call('LREM', data, 0, shortest)
  end
  return #positions
end
