-- has() and remove() for a sorted set. has() returns 1 or 0, or Redis's error. Call it under RESP2 only, where a score
-- is a string.
-- NEEDS: try.lua data
-- GIVES: has remove copies size some
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

local function copies(element)
  return has(element)
end

local function size()
  return redis.call('ZCARD', data)
end

-- Returns some elements, lowest scores first, and the cursor for the next ones, false after the last.
local function some(place)
  local from = place or 0
  local members = redis.call('ZRANGE', data, from, from + (const.PAGE - 1))
  return members, members[const.PAGE] ~= nil and from + const.PAGE
end
