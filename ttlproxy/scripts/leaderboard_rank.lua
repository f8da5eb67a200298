-- LBRANK: how many members are better than this one.
-- READS
-- KEYS: data
-- ARGV: member
-- RESULT: the rank, null if there is no such member
-- include leaderboard
local spot = spot_of(member)
return spot and rank_of(member, spot)
