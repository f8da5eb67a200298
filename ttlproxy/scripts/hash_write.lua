-- HSET, HMSET, HSETNX in a key with a rule of ONWRITE: the written fields get the deadline of the rule; with KEEPTTL
-- fields that exist keep theirs.
-- KEYS: data index schedule
-- ARGV: origin how pair...
-- RESULT: the reply of the command
local named, step, fast_how = first_pair, 2, '^(0)(%+?)(%d+)$'
local command = string.upper(string.match(origin, '%S+$'))
-- include fast_deadline
if deadline and (#ARGV - first_pair) % 2 == 1 and command ~= 'HSETNX' then
  if type(redis.pcall('HEXISTS', data, '')) == 'number' then
    -- include fast_date
    local written = dated and redis.pcall(command, data, unpack(ARGV, first_pair))
    if type(written) == 'number' or written and written.ok then
      return written
    end
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
-- include hash_maxlen
-- include maxlen
if command == 'HSETNX' and has(ARGV[first_pair]) == 1 then
  return try(command, data, ARGV[first_pair], ARGV[first_pair + 1])  -- 0, or that the server is full
end
local fields, met, added = {}, {}, 0
for i = first_pair, #ARGV, 2 do
  local field = ARGV[i]
  if not met[field] then
    met[field] = true
    fields[#fields + 1] = field
    added = added + 1 - has(field)
  end
end
if not has_room(fields, added) then
  return too_many()
end
local reply = 0
write_timed(fields, keeps, function()
  batches(first_pair, #ARGV, function(from, to)
    local written = try(command, data, unpack(ARGV, from, to))
    reply = type(written) == 'number' and reply + written or written
  end)
end)
return failure or reply
