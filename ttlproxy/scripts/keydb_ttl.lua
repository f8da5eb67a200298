-- TTL, PTTL key member: the time that one element has left, as in KeyDB.
-- READS
-- KEYS: data index
-- ARGV: unit element
-- RESULT: the time, in units of `unit` ms, rounded; -1 no such element or no deadline, -2 no such key
-- include clock
-- include any
-- include native_deadline
-- include check_type
if kind == 'none' then
  return -2
end
local deadline = has(element) == 1 and index_get(index, element)
if not deadline then
  return const.NO_DEADLINE
end
return math.floor((math.max(deadline - now, 0) + unit / 2) / unit)
