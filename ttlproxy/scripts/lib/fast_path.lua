-- The common case, before any function is made, which is half of what a script costs: a time from now,
-- for elements of a key that has an earlier deadline, no conditions and no subscribers. In all other
-- cases, and if Redis refuses a step, the script goes on below and begins again.
-- NEEDS: how index data
-- include clock
local ms_from_now = not dry_run and events == '' and #ARGV < const.LONG_PAGE and string.match(how, '^0%+(%d+)$')
if ms_from_now then
  local at = now + ms_from_now
  local first = tonumber(redis.pcall('ZRANGE', index, 0, 0, 'WITHSCORES')[2])
  if
    first
    and first <= at
    and now < at
    and at <= const.DEADLINE_MAX_MS
    and redis.pcall('PTTL', index) == -1
    and type(redis.pcall(class == 'h' and 'HEXISTS' or 'SISMEMBER', data, '')) == 'number'
  then
    local deadline, dated = string.format('%.0f', at), {}
    for i = 3, #ARGV, class == 'h' and 2 or 1 do
      dated[#dated + 1] = deadline
      dated[#dated + 1] = ARGV[i]
    end
    if type(redis.pcall('ZADD', index, unpack(dated))) == 'number' then
      local written = redis.pcall(class == 'h' and 'HSET' or 'SADD', data, unpack(ARGV, 3))
      if type(written) == 'number' then
        return class == 'h' and 1 or written
      end
    end
  end
end
