-- The functions on sets that lib/maxlen.lua needs.
-- NEEDS: set.lua data
-- GIVES: copies copies_share size some
local copies_share = false
local copies = has

local function size()
  return redis.call('SCARD', data)
end

-- Returns some elements, and the cursor for the next ones, false after the last.
local function some(cursor)
  local reply = redis.call('SSCAN', data, cursor or 0, 'COUNT', const.PAGE)
  return reply[2], reply[1] ~= '0' and reply[1]
end
