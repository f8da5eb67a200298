-- RANDOMKEY without internal keys.
-- READS
-- KEYS:
-- ARGV:
-- RESULT: the command's, nil where there are internal keys alone
-- include visible
-- Each internal key but a few has a data key beside it, so half of the picks are good.
local enough = 100
for _ = 1, enough do
  local name = redis.pcall('RANDOMKEY')
  if type(name) ~= 'string' or not is_internal(name) then
    return name
  end
end
-- Where nearly all keys are internal, the rest is looked for, from anywhere on and all the way round.
local anywhere = redis.call('TIME')[2]
for _, cursor in ipairs({ anywhere, '0' }) do
  repeat
    local page = redis.call('SCAN', cursor, 'COUNT', 1000)
    local names = visible(page[2])
    if #names > 0 then
      return names[1 + anywhere % #names]
    end
    cursor = page[1]
  until cursor == '0'
end
return false
