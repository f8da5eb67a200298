-- The functions on sorted sets that lib/maxlen.lua needs.
-- NEEDS: zset.lua data
-- GIVES: copies copies_share size some
local copies_share = false
local copies = has

local function size()
  return redis.call('ZCARD', data)
end

-- Returns some elements, lowest scores first, and the cursor for the next ones, false after the last.
local function some(place)
  local from = place or 0
  local members = redis.call('ZRANGE', data, from, from + (const.PAGE - 1))
  return members, members[const.PAGE] ~= nil and from + const.PAGE
end
