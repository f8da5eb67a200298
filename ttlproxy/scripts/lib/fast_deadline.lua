-- The beginning of the fast path of a command that sets deadlines. It comes before any function is made, because that
-- is half of the cost of a script. It is for a time in the future, without conditions, limits and keyspace events, and
-- for a key without expiry, or whose expiry is in the index. `fast_how` is the pattern of `how` for such a command: a
-- digit, a plus or none, and the time.
-- `deadline` is that time, as text; nil if the general part of the script must run. `first` is the first deadline of
-- the key before, nil without an index.
-- `known` is the database, if `origin` has its number.
-- Constant numbers for Redis are written as text, because a conversion costs 0.2 us.
-- NEEDS: clock.lua fast_how origin how index data
-- GIVES: known deadline digit first is_earlier
local deadline, first, is_earlier
local known = string.match(origin, '^(%d+) ')
local digit, sign, amount = string.match(how, fast_how)
if not dry_run and events == '' and digit and known and #ARGV < const.LONG_PAGE then
  local at = sign == '+' and now + amount or tonumber(amount)
  local head = now < at and at <= const.DEADLINE_MAX_MS and redis.pcall('ZRANGE', index, '0', '0', 'WITHSCORES')
  if head and not head.err then
    first = tonumber(head[2])
    local left, ends = redis.pcall('PTTL', data), -1
    if first and first < 0 then
      ends, head = -first, redis.pcall('ZRANGE', index, '1', '1', 'WITHSCORES')
      first = tonumber(head[2])
      -- Before 7.2 the clock may tick between two commands that read it.
      local own = now + left - (ruled and const.KEPT_MS or 0)
      ends = first and ends > now and math.abs(own - ends) <= 2 and left
    end
    is_earlier = not first or at < first
    if left == ends or left == -2 and ends == -1 and not first then
      deadline = sign == '' and amount or string.format('%.0f', at)
    end
  end
end
