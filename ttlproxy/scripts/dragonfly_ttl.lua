-- FIELDTTL: the time that a hash field or a set member has left, as in Dragonfly.
-- READS
-- KEYS: data index
-- ARGV: element
-- RESULT: seconds, rounded up; -1 no deadline, -2 no such key, -3 no such element
-- include clock
-- include any
-- include native_deadline
if kind == 'none' then
  return -2
end
local found = kind == 'hash' and has(element) or redis.pcall('SISMEMBER', data, element)
if found ~= 1 then
  return found == 0 and -3 or found
end
local deadline = index_get(index, element)
return deadline and math.ceil(math.max(deadline - now, 0) / 1000) or const.NO_DEADLINE
