-- has() and remove() for a sorted set. has() returns 1 or 0, or Redis's error. Call it under RESP2 only, where a score
-- is a string.
-- NEEDS: try.lua data
-- GIVES: has remove
local function has(element)
  local score = redis.pcall('ZSCORE', data, element)
  if type(score) == 'table' then
    return score
  end
  return score and 1 or 0
end

local function remove(elements, first)
  return try_all('ZREM', data, elements, first)
end
