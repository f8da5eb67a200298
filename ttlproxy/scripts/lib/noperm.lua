-- Redis's errors for missing permissions. Inside scripts they begin with ERR, in 6.2 even with a line number; here they
-- become the errors that Redis has outside scripts.
-- GIVES: plain_text noperm
local function plain_text(text)
  return (string.gsub(text, '^@user_script: %d+: %-?', ''))
end

-- Returns the error if it says that a permission is missing, else nil. `command`: the refused command, if it is known.
local function noperm(text, command)
  text = plain_text(text)
  -- From 7.2 on.
  local reason = string.match(text, 'ACL failure in script: (.*)')
  if reason then
    return { err = 'NOPERM ' .. reason }
  end
  local is_about = string.match(text, "The user executing the script can't (%a+)")
  if is_about == 'run' and command then
    local names = redis.acl_check_cmd and "' command" or "' command or its subcommand"
    return { err = "NOPERM this user has no permissions to run the '" .. string.lower(command) .. names }
  elseif is_about == 'access' then
    return { err = 'NOPERM this user has no permissions to access one of the keys used as arguments' }
  elseif is_about then
    return { err = 'NOPERM ' .. string.gsub(text, '^ERR ', '') }
  end
  return string.find(text, '^NOPERM') and { err = text } or nil
end
