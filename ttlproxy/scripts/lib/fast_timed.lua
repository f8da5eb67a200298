-- The end of the fast path of a write that sets deadlines: sets them, then calls `command` (fast_call.lua).
-- NEEDS: fast_date.lua
if dated then
  -- include fast_call
end
