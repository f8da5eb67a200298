-- RANDOMKEY without internal keys.
-- READS
-- KEYS:
-- ARGV:
-- RESULT: the reply of the command, nil if there are only internal keys
-- include visible
-- Nearly every internal key belongs to a data key, so about half of the picks are data keys.
local enough = 100
for _ = 1, enough do
  local name = redis.pcall('RANDOMKEY')
  if type(name) ~= 'string' or not is_internal(name) then
    return name
  end
end
-- If nearly all keys are internal, SCAN looks for the others, from a random cursor to the end, then from the beginning.
local anywhere = redis.call('TIME')[2]
for _, cursor in ipairs({ anywhere, '0' }) do
  repeat
    local page = redis.call('SCAN', cursor, 'COUNT', const.LONG_PAGE)
    local names = visible(page[2])
    if #names > 0 then
      return names[1 + anywhere % #names]
    end
    cursor = page[1]
  until cursor == '0'
end
return false
