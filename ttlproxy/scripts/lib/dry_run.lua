-- The end of a script for a client that may lack permissions. The script runs twice: first as a dry run, which asks
-- Redis whether each write is allowed instead of doing it. So if Redis refuses one command, nothing has changed.
-- NEEDS: dry_run_replies.lua noperm.lua script

-- acl_check_cmd raises an error for a command that the server does not have.
local function ask(command, ...)
  local is_known, may = pcall(redis.acl_check_cmd, command, ...)
  if not (is_known and may) then
    local reply = redis.pcall(command, ...)
    error(noperm(reply.err, command) or reply)
  end
  return replies[string.upper(command)] or 1
end

-- include dry_run_end
local reply = script(redis)
return type(reply) == 'table' and reply.err and noperm(reply.err) or reply
