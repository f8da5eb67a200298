-- The time that hash fields have left, or their deadline, rounded to the nearest unit as in Valkey.
-- READS
-- KEYS: data index
-- ARGV: unit base element...
-- RESULT: for each field the time, in units of `unit` ms; -1 no deadline, -2 no such field
-- include clock
-- include hash
-- include native_deadline
-- include check_type
-- include each
local function left(field)
  if has(field) == 0 then
    return const.NO_ELEMENT
  end
  local deadline = index_get(index, field)
  if not deadline then
    return const.NO_DEADLINE
  end
  return math.floor((math.max(deadline - base * now, 0) + unit / 2) / unit)
end

return each(left)
