-- Returns the reply with the time that each element in ARGV has left, or with its deadline. `single`: 1 for one
-- element; r if the time is rounded to the nearest unit, as by Valkey.
-- NEEDS: clock.lua index.lua each.lua has index base unit single
local function left(element)
  if has(element) == 0 then
    return const.NO_ELEMENT
  end
  local deadline = index_get(index, element)
  if not deadline then
    return const.NO_DEADLINE
  end
  -- Redis rounds up.
  local more = single == 'r' and unit / 2 or unit - 1
  return math.floor((math.max(deadline - base * now, 0) + more) / unit)
end

local replies = each(left)
return single == '1' and replies[1] or replies
