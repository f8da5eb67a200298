-- FIELDEXPIRE: sets the deadline of hash fields or set members, as Dragonfly does.
-- KEYS: data index schedule
-- ARGV: origin how element...
-- RESULT: for each element 1 set, 2 already past: deleted, -2 no such key or element
-- include words
-- include try
-- include clock
-- include deadline
-- include index
-- include any
-- include native
if kind ~= 'hash' and kind ~= 'none' then
  has = function(element)
    return redis.pcall('SISMEMBER', data, element)
  end
end
-- include check_type
-- include expire
