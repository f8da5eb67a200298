-- LBINCRBY: adds `delta` (eight bytes) to a member's score; a new member begins with 0.
-- KEYS: data
-- ARGV: delta member
-- RESULT: the new score, or an error
-- include leaderboard
local ZERO = '\127' .. string.rep('\255', STANDING - 1)
local spot = spot_of(member)
local old = spot and standing_of(spot) or ZERO
local high, low = halves(old)
local more_high, more_low = struct.unpack('>i4I4', delta)
high, low = high - more_high, low - more_low
if low < 0 then
  high, low = high - 1, low + 2 ^ 32
end
if high < 0 or high >= 2 ^ 32 then
  return { err = 'ERR increment or decrement would overflow' }
end
local standing = struct.pack('>I4I4', high, low)
if not spot or standing ~= old then
  move(member, standing, spot)
end
return failure or score_of(standing)
