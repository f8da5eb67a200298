-- The lines of a HELP reply.
-- READS
-- KEYS:
-- ARGV: line...
-- RESULT: each as a status, as Redis gives those of its own
local lines = {}
for number, line in ipairs(ARGV) do
  lines[number] = { ok = line }
end
return lines
