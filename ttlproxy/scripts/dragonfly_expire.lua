-- FIELDEXPIRE: sets the deadline of hash fields or set members, as Dragonfly does.
-- KEYS: data index schedule
-- ARGV: origin how element...
-- RESULT: for each element 1 set, -2 no such key or element, or a key of another type
-- include words
-- include deadline
-- include any
-- include native
if kind ~= 'hash' and kind ~= 'set' and kind ~= 'none' then
  local replies = {}
  for i = first_element, #ARGV do
    replies[#replies + 1] = const.NO_ELEMENT
  end
  return replies
end
if kind == 'set' then
  has = function(element)
    return redis.pcall('SISMEMBER', data, element)
  end
end
-- include check_type
-- include expire
