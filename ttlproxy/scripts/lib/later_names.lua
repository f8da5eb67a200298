-- What the name of a hash of deferred commands says (core/keys.py).
local LATER = prefix .. 'later:'

local function is_later(key)
  return string.sub(key, 1, #LATER) == LATER
end

-- The key that the commands are for.
local function later_target(later)
  local rest = string.sub(later, #LATER + 1)
  local from = string.sub(rest, 1, 2) == 't:' and 3 or string.find(rest, '}:', 1, true)
  return from == 3 and string.sub(rest, 3) or from and string.sub(rest, from + 2)
end

-- The name of a key that never exists, and that clients who may not touch the key may not either.
local function later_nowhere(later)
  return prefix .. 'none:' .. string.sub(later, #LATER + 1)
end
