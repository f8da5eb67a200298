-- ZADD, GEOADD: a member whose score is written loses its deadline; a member that NX, XX, GT or LT skips keeps it.
-- KEYS: data index schedule
-- ARGV: how tuple...
-- RESULT: the reply of the command
local named, step, finder = first_tuple + 1, 2, false
if string.sub(how, 1, 6) == 'GEOADD' then
  named, step = first_tuple + 2, 3
end
-- include index_stays
if index_stays then
  local words = { data, unpack(ARGV, first_tuple) }
  local name = how
  if name ~= 'ZADD' then
    local at = 1
    for word in string.gmatch(how, '%S+') do
      table.insert(words, at, word)
      at = at == 1 and 3 or at + 1
    end
    name = table.remove(words, 1)
  end
  local added = redis.pcall(name, unpack(words))
  if type(added) == 'number' then
    return added
  end
end
-- include zset
-- include zadd
-- include check_type
-- include clear
local members = written_members()
clear(members, 1)
local added = write_tuples()
return failure or added
