-- LBAROUND: a member's row, and `count` rows above and below it.
-- READS
-- KEYS: data
-- ARGV: member count
-- RESULT: [rank, member, score] of each, best first; none if there is no such member
-- include leaderboard
local spot = spot_of(member)
if not spot then
  return {}
end
local rank, most = rank_of(member, spot), tonumber(count)
return rows(rank - most, rank + most)
