-- ZADD, GEOADD: a member whose score is written loses its deadline; one that NX, XX, GT or LT skips
-- keeps it.
-- KEYS: data index schedule
-- ARGV: how tuple...
-- RESULT: the command's
-- include try
-- include index
-- include zset
-- include options
-- include zadd
-- include clear
check_numbers()
if failure then
  return failure
end
-- include check_type
local members = written_members()
clear(members, 1)
local added = 0
batches(first_tuple, #ARGV, function(from, to)
  if not failure then
    added = added + (tonumber(try(called(data, from, to))) or 0)
  end
end)
return failure or added
