-- HSET, HMSET: the written fields lose their deadlines.
-- KEYS: data index schedule
-- ARGV: command pair...
-- RESULT: the reply of the command
local first_word, named, step, finder = first_pair, first_pair, 2, false
-- include fast_write
local takes_memory, probe = true, 'HEXISTS'
-- include fast_clear
-- include hash
if (#ARGV - first_pair) % 2 == 0 then
  -- A field without a value: Redis returns its error, and nothing is written.
  return try(command, data, unpack(ARGV, first_pair, first_pair + 2))
end
-- include check_type
-- include unique
-- include clear
index_guard(index)
clear(elements, 1)
local written = try_all(command, data, ARGV, first_pair)
return failure or written
