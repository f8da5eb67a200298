-- LBTOP: the rows from one rank to another; rank -1 is the last.
-- READS
-- KEYS: data
-- ARGV: start stop
-- RESULT: [rank, member, score] of each, best first
-- include leaderboard
local function rank(word)
  local number = tonumber(word)
  return number < 0 and size / 2 + number or number
end

return rows(rank(start), rank(stop))
