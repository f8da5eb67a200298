-- Checks whether the client may call a command that follows; if not, Redis's error is in `failure`. Redis 6.2 has no
-- acl_check_cmd; there the command is tried on a key that does not exist. The client may read the key itself, because
-- the script has read it.
-- NEEDS: try.lua index.lua index
-- GIVES: may
local function may(command, key, ...)
  if not redis.acl_check_cmd then
    try(command, absent_key(index, prefix), ...)
  elseif not failure and not redis.acl_check_cmd(command, key, ...) then
    try(command, key, ...)
  end
end
