-- Returns the reply with the time that each element in ARGV has left, or with its deadline.
-- NEEDS: clock.lua index.lua each.lua has index base unit single
local function left(element)
  if has(element) == 0 then
    return const.NO_ELEMENT
  end
  local deadline = index_get(index, element)
  if not deadline then
    return const.NO_DEADLINE
  end
  -- Seconds are rounded up.
  return math.floor((math.max(deadline - base * now, 0) + unit - 1) / unit)
end

local replies = each(left)
return single == '1' and replies[1] or replies
