-- `at`: the deadline in ms; `amount`, plus the time of the server if `base` is 1; nil if `amount` is ''.
-- NEEDS: clock.lua amount base name
-- GIVES: at at_once
local at = tonumber(amount)
if at then
  at = at + base * now
  if at > const.DEADLINE_MAX_MS then
    return { err = "ERR invalid expire time in '" .. name .. "' command" }
  end
end
-- Whether elements that get this deadline are removed in this step. Not if there are rules of ONEXPIRE, because a rule
-- may deliver them: then they are due now, and stay until they are reaped. Both are checked: what the proxy knows,
-- because clients may write to the hash of rules; and the hash, because the proxy may not have read the rules that came
-- with a replica's data. A Cluster's slot has only the version of the rules, also after the last one was deleted.
local at_once = at and at <= now and not ruled
if at_once then
  local fields = redis.pcall('HKEYS', prefix .. const.RULES .. slot_tag)
  at_once = not fields.err
  for _, field in ipairs(fields) do
    local is_write_rule = string.sub(field, 2, #const.WRITE_RULE + 1) == const.WRITE_RULE
    at_once = at_once and slot_tag == '' and (is_write_rule or string.sub(field, 1, 1) ~= ':')
  end
end
if at and at <= now and not at_once then
  at = now - 1
end
