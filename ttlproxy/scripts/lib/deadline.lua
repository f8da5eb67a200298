-- `at`: the deadline, `amount` in ms, counted from now if base is 1; nil if amount is ''.
-- NEEDS: clock.lua amount base name
-- GIVES: at at_once
local at = tonumber(amount)
if at then
  at = at + base * now
  if at > const.DEADLINE_MAX_MS then
    return { err = "ERR invalid expire time in '" .. name .. "' command" }
  end
end
-- Whether elements that get this deadline are removed in this step. Not if there are rules of ONEXPIRE,
-- for a rule may say what becomes of them: then they are due now, and stay until they are reaped.
local at_once = at and at <= now and not ruled
if at and at <= now and not at_once then
  at = now - 1
end
