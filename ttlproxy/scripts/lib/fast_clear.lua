-- The fast path of a native write whose elements lose their deadlines, after fast_write.lua. It is taken only if other
-- elements keep deadlines, so that the schedule does not change. `takes_memory`: whether a full server refuses the
-- command; then the server must refuse before the deadlines are removed. `probe`: the command that looks for an
-- element.
-- NEEDS: first_word named step takes_memory probe index data
if not dry_run and not counting and #ARGV < const.LONG_PAGE and (#ARGV - first_word + 1) % step == 0 then
  local cleared = {}
  for i = named, #ARGV, step do
    cleared[#cleared + 1] = ARGV[i]
  end
  local dated = redis.pcall('ZCARD', index)
  if
    type(dated) == 'number'
    -- One entry may say when the key expires.
    and (dated > #cleared + 1 or dated > #cleared and not redis.pcall('ZSCORE', index, const.KEY_EXPIRY))
    and type(redis.pcall(probe, data, '')) ~= 'table'
    and (not takes_memory or redis.pcall('ZADD', index, 'XX', 'GT', '0', '') == 0)
    and type(redis.pcall('ZREM', index, unpack(cleared))) == 'number'
  then
    -- include fast_call
  end
end
