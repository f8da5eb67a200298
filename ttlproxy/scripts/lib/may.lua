-- Whether the client may do something that is still to come: if not, Redis's refusal is in `failure`.
-- Redis 6.2 cannot be asked; there a key that is nowhere stands in for the one that is meant, which the
-- script has read already.
local function may(command, key, ...)
  if not redis.acl_check_cmd then
    try(command, index_nowhere(index, prefix), ...)
  elseif not failure and not redis.acl_check_cmd(command, key, ...) then
    try(command, key, ...)
  end
end
