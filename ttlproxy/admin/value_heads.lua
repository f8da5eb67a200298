-- The beginnings of the values of hash fields, or of the scores of members.
-- KEYS: a hash or a sorted set
-- ARGV: the most bytes of a value, then the elements
-- RESULT: for each element [the first bytes of the value, its length], null if it does not exist
local command = redis.call('TYPE', KEYS[1]).ok == 'zset' and 'ZSCORE' or 'HGET'
local most, found = tonumber(ARGV[1]), {}
for at = 2, #ARGV do
  local value = redis.call(command, KEYS[1], ARGV[at])
  found[at - 1] = value and { string.sub(value, 1, most), #value } or false
end
return found
