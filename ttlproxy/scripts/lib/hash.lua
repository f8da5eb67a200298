-- has() and remove() for a hash. has() returns 1 or 0, or Redis's error.
-- NEEDS: try.lua data
-- GIVES: has remove
local function has(element)
  return redis.pcall('HEXISTS', data, element)
end

local function remove(elements, first)
  return try_all('HDEL', data, elements, first)
end
