-- SWAPDB: tells every proxy that two databases have changed places.
-- KEYS:
-- ARGV: one other
-- RESULT: the reply of the command
-- include index
announce_swap_guard(prefix)
local reply = try('SWAPDB', one, other)
if reply.err then
  -- include noperm
  return noperm(reply.err, 'SWAPDB') or reply
end
announce_swap(prefix, one, other)
return reply
