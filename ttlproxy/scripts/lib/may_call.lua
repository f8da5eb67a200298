-- Checks whether the client may call a command later on: if not, Redis's refusal is in `failure`.
-- Redis 6.2 cannot be asked; there the command is tried on a key that does not exist. The right to read
-- the key itself is known, because the script has read it.
-- NEEDS: try.lua index.lua index
-- GIVES: may
local function may(command, key, ...)
  if not redis.acl_check_cmd then
    try(command, absent_key(index, prefix), ...)
  elseif not failure and not redis.acl_check_cmd(command, key, ...) then
    try(command, key, ...)
  end
end
