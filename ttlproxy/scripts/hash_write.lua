-- HSET, HMSET, HSETNX in a key with a rule of ONWRITE: the written fields get the deadline of the rule; with KEEPTTL
-- fields that exist keep theirs.
-- KEYS: data index schedule
-- ARGV: origin how pair...
-- RESULT: the reply of the command
local first_word, named, step, fast_how = first_pair, first_pair, 2, '^(0)(%+?)(%d+)$'
local command = string.upper(string.match(origin, '%S+$'))
-- include fast_deadline
if deadline and (#ARGV - first_pair) % 2 == 1 and command ~= 'HSETNX' then
  if type(redis.pcall('HEXISTS', data, '')) == 'number' then
    -- include fast_timed
  end
end
-- include rule
-- include deadline
-- include hash
if (#ARGV - first_pair) % 2 == 0 then
  -- A field without a value: Redis returns its error, and nothing is written.
  return try(command, data, unpack(ARGV, first_pair, first_pair + 2))
end
-- include check_type
-- include timed_write
-- include maxlen
if command == 'HSETNX' and has(ARGV[first_pair]) == 1 then
  return try(command, data, ARGV[first_pair], ARGV[first_pair + 1])  -- 0, or that the server is full
end
-- include unique
if not has_room(elements, #absent(elements, 1)) then
  return too_many()
end
local reply = 0
write_timed(elements, keeps, function()
  reply = try_all(command, data, ARGV, first_pair)
end)
return failure or reply
