-- The end of a script for a client that may lack a right. The script runs twice: first as a dry run, which
-- asks Redis about each write instead of doing it. So either nothing is refused, or nothing changes.
-- NEEDS: script
-- include dry_run_replies
-- include noperm

-- acl_check_cmd fails for a command that the server does not have.
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
