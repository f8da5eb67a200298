-- Examines a key, its index and its place in the schedule, for `ttlproxy doctor`; changes nothing.
-- READS
-- KEYS: data index schedule
-- ARGV: count
-- RESULT: [type, type of the key in the place of the index, ms until the key expires, the same by the index, when it
--   needs attention by the schedule or -1, first deadline or -1, deadlines checked, those of them whose element does
--   not exist]
-- At most `count` deadlines are checked; none of a long list.
-- include clock
-- include index
-- include finders
local LONG = 10000
local kind, place = redis.call('TYPE', data).ok, index_kind(index)
local looked, gone, first, ends = 0, 0, nil, nil
if place == 'zset' then
  first, ends = index_first(index), index_ends(index)
  if finders[kind] and not (kind == 'list' and redis.call('LLEN', data) > LONG) then
    for _, element in ipairs(index_sample(index, count)) do
      looked = looked + 1
      gone = gone + (exists(kind, element) and 0 or 1)
    end
  end
end
return {
  kind, place, key_left(data, index, now), ends and math.max(ends - now, 0) or const.NO_DEADLINE,
  tonumber(schedule_get(schedule, data) or const.NO_DEADLINE), first or const.NO_DEADLINE, looked, gone,
}
