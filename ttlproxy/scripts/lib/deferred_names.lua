-- Reads the name of a hash of deferred commands (core/keys.py).
-- GIVES: LATER is_deferred deferred_target absent_deferred_key
local LATER = prefix .. const.LATER

local function is_deferred(key)
  return string.sub(key, 1, #LATER) == LATER
end

-- Returns the key that the commands of the hash are for.
local function deferred_target(deferred)
  local rest = string.sub(deferred, #LATER + 1)
  local from = string.sub(rest, 1, 2) == const.TAGGED and 3 or string.find(rest, '}:', 1, true)
  return from == 3 and string.sub(rest, 3) or from and string.sub(rest, from + 2)
end

-- Returns the name of a key that never exists. The client may access it only if it may access the hash.
local function absent_deferred_key(deferred)
  return prefix .. const.NONE .. string.sub(deferred, #LATER + 1)
end
