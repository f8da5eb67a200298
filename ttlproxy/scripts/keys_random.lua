-- RANDOMKEY without internal keys.
-- READS
-- KEYS:
-- ARGV:
-- RESULT: the command's, nil where there are internal keys alone
-- include visible
-- Nearly every internal key has a data key beside it, so about half of the picks are good.
local enough = 100
for _ = 1, enough do
  local name = redis.pcall('RANDOMKEY')
  if type(name) ~= 'string' or not is_internal(name) then
    return name
  end
end
-- If nearly all keys are internal, SCAN looks for the others, from a random place once all round.
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
