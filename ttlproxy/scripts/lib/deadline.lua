-- `at`: the deadline that `amount` ms mean, counted from now where base is 1; nil where amount is ''.
local at = tonumber(amount)
if at then
  at = at + base * now
  -- Redis 8: HFE_MAX_ABS_TIME_MSEC, 2^46 - 1.
  if at > 70368744177663 then
    return { err = "ERR invalid expire time in '" .. name .. "' command" }
  end
end
-- Whether elements that are given it go in this step. Not where there are rules: one may say what becomes
-- of them, so they are due now, and stay until they are reaped.
local at_once = at and at <= now and not ruled
if at and at <= now and not at_once then
  at = now - 1
end
