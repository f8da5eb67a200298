-- LBADD: sets a member's score. A member that already has it keeps its place.
-- KEYS: data
-- ARGV: condition standing member
-- RESULT: 1 the member is new, 0 it is not new, or the condition was not met
-- include leaderboard
local spot = spot_of(member)
local old = spot and standing_of(spot)
local refused = condition == 'NX' and old
  or condition == 'XX' and not old
  or condition == 'GT' and old and not is_better(standing, old)
  or condition == 'LT' and old and not is_better(old, standing)
if refused or old == standing then
  return 0
end
move(member, standing, spot)
return failure or (spot and 0 or 1)
