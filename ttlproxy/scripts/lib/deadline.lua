-- `at`: the deadline that `amount` ms mean, counted from now where base is 1; nil where amount is ''.
local at = tonumber(amount)
if at then
  at = at + base * now
  -- Redis 8: HFE_MAX_ABS_TIME_MSEC, 2^46 - 1.
  if at > 70368744177663 then
    return { err = "ERR invalid expire time in '" .. name .. "' command" }
  end
end
