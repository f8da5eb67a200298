-- HSETEX: writes hash fields and their deadline in one step.
-- KEYS: data index schedule
-- ARGV: origin how pair...
-- RESULT: 1 written, 0 condition not met, TOO_MANY; if the condition begins with a D, as Dragonfly does: how many
--   fields are new
local named, step, fast_how = first_pair, 2, '^([024])(%+?)(%d+)$'
-- include fast_deadline
if deadline and (digit == '0' or first) and type(redis.pcall('HEXISTS', data, '')) == 'number' then
  -- include fast_date
  local written = dated and redis.pcall('HSET', data, unpack(ARGV, first_pair))
  if type(written) == 'number' then
    return 1
  end
end
-- include words
-- include deadline
-- include hash
-- include native_deadline
-- include left_to_server
if is_left then
  local words = { name, data }
  for word in string.gmatch(condition, 'F?[NX]X') do
    words[#words + 1] = word
  end
  return carry_out(with_time(words, 'KEEPTTL'), first_pair, 2)
end
-- include check_type
-- include timed_write
-- include maxlen
-- Valkey also has conditions on the key: NX and XX.
local of_fields = string.match(condition, 'F[NX]X') or ''
local of_key = string.match(string.gsub(condition, of_fields, ''), '^[NX]X')
if of_key and redis.call('EXISTS', data) ~= (of_key == 'XX' and 1 or 0) then
  return 0
end
local counts, skips = string.sub(condition, 1, 1) == 'D', condition == 'D' .. 'NX'
local fields, words, met, added = {}, {}, {}, 0
for i = first_pair, #ARGV, 2 do
  local field = ARGV[i]
  local there = (of_fields ~= '' or cap ~= '' or counts) and has(field)
  if of_fields ~= '' and there ~= (of_fields == 'FXX' and 1 or 0) then
    return 0
  end
  local is_new = there == 0 and not met[field]
  if is_new then
    added = added + 1
  end
  met[field] = true
  if is_new or not skips then
    fields[#fields + 1] = field
    words[#words + 1] = field
    words[#words + 1] = ARGV[i + 1]
  end
end
local wanted = #fields
if not has_room(fields, added, of_fields == 'FXX') then
  return const.TOO_MANY
end
if #fields < wanted then
  return 0
end
-- HSET clears the deadlines that the server has.
local kept = {}
for _, field in ipairs(flag == '1' and fields or {}) do
  kept[field] = native_deadline(field)
end
write_timed(fields, flag == '1', function()
  try_all('HSET', data, words, 1)
  for field, deadline in pairs(kept) do
    try('HPEXPIREAT', data, ms(deadline), 'FIELDS', 1, field)
  end
end)
return failure or counts and added or 1
