-- The lines of a HELP reply.
-- READS
-- KEYS:
-- ARGV: line...
-- RESULT: each as a simple string, as in HELP replies of Redis
local lines = {}
for number, line in ipairs(ARGV) do
  lines[number] = { ok = line }
end
return lines
