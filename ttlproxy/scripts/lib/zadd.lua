-- For ZADD and GEOADD: ARGV has their words from `first_tuple` on, `width` words for each member.
-- NEEDS: try.lua index.lua options.lua first_tuple index data
-- GIVES: check_numbers written_members
local width = command == 'GEOADD' and 3 or 2

-- Makes Redis check the numbers before any is written, by writes that change nothing.
local function check_numbers()
  local absent = absent_key(index, prefix)
  batches(first_tuple, #ARGV, function(from, to)
    try(command, absent, 'XX', unpack(ARGV, from, to))
  end)
end

-- Returns the members whose score ZADD will write, how many of them are new, how many it adds or changes, and the
-- members whose score becomes a different one.
-- As in ZADD (zsetAdd in Redis's t_zset.c), an equal score is written, unless GT or LT is given; HSET of an equal value
-- clears the deadline too (Redis 8). A member that is given again is compared with the score that was written before.
local function written_members()
  local members, scores, added, updated, altered = {}, {}, 0, 0, {}

  local function write(member, score, old)
    members[#members + 1] = member
    scores[member] = score
    if score ~= old then
      altered[#altered + 1] = member
    end
    if not old then
      added = added + 1
    elseif score ~= old then
      updated = updated + 1
    end
  end

  for i = first_tuple, #ARGV, width do
    local member, score = ARGV[i + width - 1], tonumber(ARGV[i])
    local old = scores[member] or tonumber(redis.call('ZSCORE', data, member))
    if not old and not options.XX then
      write(member, score)
    elseif old and not (options.NX or options.GT and score <= old or options.LT and score >= old) then
      write(member, score, old)
    end
  end
  return members, added, added + updated, altered
end
