-- HSET, HMSET: the written fields lose their deadlines.
-- KEYS: data index schedule
-- ARGV: command pair...
-- RESULT: the reply of the command
local first_word, named, step, finder = first_pair, first_pair, 2, false
-- include fast_write
local takes_memory = true
-- include fast_clear
-- include index
-- include hash
if (#ARGV - first_pair) % 2 == 0 then
  -- A field without a value: Redis returns its error, and nothing is written.
  return try(command, data, unpack(ARGV, first_pair, first_pair + 2))
end
-- include check_type
index_guard(index)
local cleared = 0
for i = first_pair, #ARGV, 2 do
  if failure then
    return failure
  end
  cleared = cleared + (tonumber(index_clear(index, ARGV[i])) or 0)
end
index_was_cleared(data, index, schedule, cleared)
local written = 0
batches(first_pair, #ARGV, function(from, to)
  local reply = try(command, data, unpack(ARGV, from, to))
  written = type(reply) == 'number' and written + reply or reply
end)
return failure or written
