-- Puts a key into the schedule that has an index and is missing there, and tells every proxy.
-- KEYS: data index schedule
-- ARGV: db
-- RESULT: 1 put there, 0 nothing was missing
-- include try
-- include clock
-- include index
local first, attention = index_attention(data, index, now)
if not first or redis.call('ZSCORE', schedule, data) then
  return failure or 0
end
schedule_write(schedule, { ms(attention), data }, {})
announce(db, prefix, index, first)
return failure or 1
