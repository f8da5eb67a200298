-- COMMAND and COMMAND INFO with our commands among the others.
-- READS
-- KEYS:
-- ARGV: resp json argument...
-- RESULT: the reply of the command; rows of our commands have as many columns as those of Redis
-- include command_replies
-- Our commands have no subcommands, like GET: under RESP3 some servers write an empty set, others an empty array.
local native = ask('INFO', 'get')[1] or {}
local subcommands = 10

local function row(name)
  local found = reply_of(our_commands[name])
  found[subcommands] = native[subcommands]
  for number = #native + 1, #found do
    found[number] = nil
  end
  return found
end

if ARGV[first_argument + 1] then
  local rows = {}
  for at = first_argument + 1, #ARGV do
    local name = string.lower(ARGV[at])
    if our_commands[name] then
      rows[#rows + 1] = row(name)
    else
      local reply = ask('INFO', ARGV[at])
      if reply.err then
        return reply
      end
      rows[#rows + 1] = reply[1] or false
    end
  end
  return rows
end

local reply = ask(unpack(ARGV, first_argument))
if reply.err then
  return reply
end
-- The reply of Redis 6.2 to COMMAND INFO without names is an empty array.
if #reply > 0 then
  for name in pairs(our_commands) do
    reply[#reply + 1] = row(name)
  end
end
return reply
