-- Hides internal keys from clients.
-- GIVES: is_internal visible
local STATE, OUTBOX = const.STATE .. prefix .. home_tag, const.OUTBOX .. prefix

local function is_internal(name)
  return string.sub(name, 1, #prefix) == prefix or name == STATE or string.sub(name, 1, #OUTBOX) == OUTBOX
end

-- Returns the names that are not internal, in their order.
local function visible(names)
  local found = {}
  for _, name in ipairs(names) do
    if not is_internal(name) then
      found[#found + 1] = name
    end
  end
  return found
end
