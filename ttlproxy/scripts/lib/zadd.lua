-- For ZADD and GEOADD: ARGV has their words from `first_tuple` on, `width` words for each member. Returns the error if
-- some are no numbers.
-- NEEDS: try.lua index.lua options.lua first_tuple index data
-- GIVES: write_tuples written_members
local width = command == 'GEOADD' and 3 or 2

-- Redis checks the numbers before any is written, by writes that change nothing.
batches(first_tuple, #ARGV, function(from, to)
  try(command, beside(index, const.NONE), 'XX', unpack(ARGV, from, to))
end)
if failure then
  return failure
end

-- Writes all; returns the sum of the replies.
local function write_tuples()
  local sum = 0
  batches(first_tuple, #ARGV, function(from, to)
    sum = sum + (tonumber(try(called(data, from, to))) or 0)
  end)
  return sum
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
