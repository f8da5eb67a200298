-- ZADD and GEOADD, whose words stand in ARGV from `first_tuple` on, `width` of them for each member.
local width = command == 'GEOADD' and 3 or 2

-- Redis judges the numbers before it writes any: so does this, on a key that is not there.
local function judge()
  local nowhere = index_nowhere(index, prefix)
  batches(first_tuple, #ARGV, function(from, to)
    try(command, nowhere, 'XX', unpack(ARGV, from, to))
  end)
end

-- The members whose score ZADD will write, decided as it does (zsetAdd in Redis's t_zset.c): an equal
-- score is written, unless GT or LT asks for another one. HSET of an equal value clears the deadline
-- as well (Redis 8). A member may be named again, and is compared with what was written before.
local function written_members()
  local members, scores = {}, {}
  for i = first_tuple, #ARGV, width do
    local member, score = ARGV[i + width - 1], tonumber(ARGV[i])
    local old = scores[member] or tonumber(redis.call('ZSCORE', data, member))
    local writes
    if old then
      writes = not (options.NX or options.GT and score <= old or options.LT and score >= old)
    else
      writes = not options.XX
    end
    if writes then
      members[#members + 1] = member
      scores[member] = score
    end
  end
  return members
end
