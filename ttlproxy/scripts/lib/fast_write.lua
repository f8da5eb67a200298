-- The whole fast path of a native write: `command`, with the words of ARGV from number `first_word` on.
-- NEEDS: index_stays.lua
if index_stays then
  -- include fast_call
end
