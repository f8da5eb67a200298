-- The token of a lease is its deadline: no later lease of the same element has the same token, because it begins after
-- this deadline.
-- NEEDS: clock.lua index.lua data index schedule token
-- GIVES: before is_leased
local before = index_follow(data, index, schedule, now)

-- Returns whether the element is still leased with that token.
local function is_leased(element)
  return tonumber(token) >= now and index_get(index, element) == tonumber(token)
end
