-- What scripts do with the elements of a key, for types whose command replies 1 or 0 if it looks for one. has() returns
-- 1 or 0, or Redis's error.
-- NEEDS: try.lua data
-- GIVES: has remove copies size some
local function has(element)
  return redis.pcall('{find}', data, element)
end

local function remove(elements, first)
  return try_all('{remove}', data, elements, first)
end

local function copies(element)
  return has(element)
end

local function size()
  return redis.call('{count}', data)
end

-- Returns some elements, and the cursor for the next ones, false after the last.
local function some(cursor)
  local reply, elements = redis.call('{scan}', data, cursor or 0, 'COUNT', const.PAGE), {}
  for i = 1, #reply[2], {width} do
    elements[#elements + 1] = reply[2][i]
  end
  return elements, reply[1] ~= '0' and reply[1]
end
