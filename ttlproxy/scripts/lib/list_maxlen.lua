-- The functions on lists that lib/maxlen.lua needs.
-- NEEDS: words.lua list.lua list_length.lua data
-- GIVES: copies size some
local function copies(element)
  return looked_for[element] or #redis.call('LPOS', data, element, 'COUNT', 0)
end

local function size()
  return length
end

-- Returns some values, those farthest from the pushed end first, and the cursor for the next ones, false after the
-- last.
local function some(place)
  local from, values = place or 0, {}
  if string.sub(name, 1, 1) == 'r' then
    values = redis.call('LRANGE', data, from, from + (const.PAGE - 1))
  else
    local page = redis.call('LRANGE', data, -from - const.PAGE, -from - 1)
    for i = #page, 1, -1 do
      values[#values + 1] = page[i]
    end
  end
  return values, values[const.PAGE] ~= nil and from + const.PAGE
end
