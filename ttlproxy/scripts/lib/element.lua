-- What scripts do with the elements of a key. has() returns 1 or 0, or Redis's error; call it for a sorted set under
-- RESP2 only, where a score is a string.
-- NEEDS: try.lua data
-- GIVES: has remove copies size some
local function has(element)
  local found = redis.pcall('{find}', data, element)
  return {is_found}
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

-- Returns some elements, and the cursor for the next ones, false after the last; of a sorted set the lowest scores first.
local function some(cursor)
  if class == 'z' then
    local from = cursor or 0
    local members = redis.call('ZRANGE', data, from, from + (const.PAGE - 1))
    return members, members[const.PAGE] ~= nil and from + const.PAGE
  end
  local reply, elements = redis.call('{scan}', data, cursor or 0, 'COUNT', const.PAGE), {}
  for i = 1, #reply[2], {width} do
    elements[#elements + 1] = reply[2][i]
  end
  return elements, reply[1] ~= '0' and reply[1]
end
