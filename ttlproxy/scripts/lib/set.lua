-- has() and remove() for a set. has() returns 1 or 0, or Redis's error.
-- NEEDS: try.lua data
-- GIVES: has remove
local function has(element)
  return redis.pcall('SISMEMBER', data, element)
end

local function remove(elements, first)
  return try_all('SREM', data, elements, first)
end
