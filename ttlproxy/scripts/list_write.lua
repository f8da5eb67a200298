-- LPUSH, RPUSH, LPUSHX, RPUSHX in a key with a rule of ONWRITE: a value without a deadline gets that of the rule, with
-- equal values in the list; a value with a deadline keeps it, except with REFRESH.
-- KEYS: data index schedule
-- ARGV: origin how element...
-- RESULT: the reply of the command
local command = string.upper(string.match(origin, '%S+$'))
local first_word, named, step, fast_how = first_element, first_element, 1, '^(%d)(%+?)(%d+)$'
-- include fast_deadline
if deadline and not string.find(origin, 'x', 1, true) and type(redis.pcall('LLEN', data)) == 'number' then
  local dates = digit == '1' and redis.pcall('ZMSCORE', index, unpack(ARGV, first_element)) or {}
  local any = dates.err
  for i = 1, #dates do
    any = any or dates[i]
  end
  if not any then
    -- include fast_timed
  end
end
-- include rule
-- include list
-- include timed_write
-- include list_maxlen
-- include maxlen
-- include rule_lists
if length == 0 and string.sub(name, -1) == 'x' then
  return try(command, data, ARGV[first_element])  -- 0, or that the server is full
end
if evict ~= '' and #ARGV - named >= tonumber(cap) then
  -- The last ones stay, as with an LTRIM after each push.
  named = #ARGV - tonumber(cap) + 1
end
-- include unique
local pushed = #ARGV - named + 1
if cap ~= '' then
  look_for(elements, 1)
  look_for(index_due(index, now, -1), 1)
end
-- Each push makes the list longer, even if an equal value exists.
local may_push, surplus, _, live = has_room(elements, pushed, false, true)
if not may_push then
  return too_many()
end
local reply = (live or length) + pushed - surplus

-- Equal values have one deadline, so a copy of a pushed value cannot be evicted: those at the other end are removed.
local trimmed, copies_of = {}, {}
local page, following
while surplus > 0 and following ~= false do
  page, following = some(following)
  for _, value in ipairs(page) do
    if surplus > 0 and met[value] then
      if not copies_of[value] then
        trimmed[#trimmed + 1] = value
      end
      copies_of[value] = (copies_of[value] or 0) + 1
      surplus = surplus - 1
    end
  end
end
local from_head = string.sub(name, 1, 1) == 'r' and 1 or -1
write_timed(dated_by_rule(elements), false, function()
  try_all(command, data, ARGV, named)
  for _, value in ipairs(trimmed) do
    try('LREM', data, from_head * copies_of[value], value)
  end
end)
return failure or reply
