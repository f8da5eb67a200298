-- COMMAND DOCS with our commands among the others.
-- READS
-- KEYS:
-- ARGV: resp json argument...
-- RESULT: the reply of the command
-- include command_replies
-- Redis leaves out names that it does not know.
local reply = ask(unpack(ARGV, first_argument))
if reply.err then
  return reply
end
for name, docs in pairs(our_commands) do
  if is_resp3 then
    reply.map[name] = reply_of(docs)
  else
    reply[#reply + 1] = name
    reply[#reply + 1] = reply_of(docs)
  end
end
return reply
