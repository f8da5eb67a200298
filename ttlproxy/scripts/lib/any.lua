-- has() and remove() for a key of any type. has() returns 1 or 0, or Redis's error.
-- `kind` is the type; `finders` has no command for a type without elements, or if the key does not exist.
-- NEEDS: try.lua data
-- GIVES: has remove kind finders
local kind = redis.call('TYPE', data).ok
local finders = { hash = 'HEXISTS', set = 'SISMEMBER', zset = 'ZSCORE' }
local removers = { hash = 'HDEL', set = 'SREM', zset = 'ZREM' }
class = (const.LETTERS)[kind]

local function has(element)
  local found = finders[kind] and redis.pcall(finders[kind], data, element)
  if type(found) == 'table' then
    return found
  end
  return found and found ~= 0 and 1 or 0
end

local function remove(elements, first)
  return try_all(removers[kind], data, elements, first)
end
