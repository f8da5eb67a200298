-- ZADD, GEOADD: a member whose score was written has no deadline any more, one that NX, XX, GT or LT
-- skipped keeps it.
-- KEYS: data index schedule
-- ARGV: how tuple...
-- RESULT: the command's
-- include try
-- include index
-- include zset
-- include options
-- include zadd
judge()
if failure then
  return failure
end
-- include typed
local members = written_members()
local cleared = 0
batches(1, #members, function(from, to)
  cleared = cleared + (tonumber(index_clear(index, unpack(members, from, to))) or 0)
end)
index_was_cleared(data, index, schedule, cleared)
local added = 0
batches(first_tuple, #ARGV, function(from, to)
  if not failure then
    added = added + (tonumber(try(called(data, from, to))) or 0)
  end
end)
return failure or added
