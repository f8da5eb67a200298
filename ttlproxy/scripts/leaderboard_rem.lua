-- LBREM: removes members.
-- KEYS: data
-- ARGV: member...
-- RESULT: how many existed
-- include leaderboard
local entries = {}
for i = first_member, #ARGV do
  local spot = spot_of(ARGV[i])
  if spot then
    entries[#entries + 1] = row_of(ARGV[i], spot)
    entries[#entries + 1] = place_of(ARGV[i]) .. spot
  end
end
local removed = try_all('ZREM', data, entries, 1)
return failure or removed / 2
