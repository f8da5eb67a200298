-- LPUSH, RPUSH, LPUSHX, RPUSHX: a value that is in the list keeps its deadline, and the new copy has the same; a new
-- value has none.
-- KEYS: data index schedule
-- ARGV: command element...
-- RESULT: the reply of the command
local first_word, named, step, finder = first_element, first_element, 1, false
-- include fast_write
-- include list_keep
-- include list_length
keep(ARGV, first_element)
if failure then
  return failure
end
batches(first_element, #ARGV, function(from, to)
  length = try(command, data, unpack(ARGV, from, to))
end)
return failure or length
