-- The functions on hashes that lib/maxlen.lua needs.
-- NEEDS: hash.lua data
-- GIVES: copies copies_share size some
local copies_share = false
local copies = has

local function size()
  return redis.call('HLEN', data)
end

-- Returns some elements, and the cursor for the next ones, false after the last.
local function some(cursor)
  local reply, fields = redis.call('HSCAN', data, cursor or 0, 'COUNT', const.PAGE), {}
  for i = 1, #reply[2], 2 do
    fields[#fields + 1] = reply[2][i]
  end
  return fields, reply[1] ~= '0' and reply[1]
end
