-- Executes entries of an outbox that is in another slot, in their order, and each once: for each term of that slot, the
-- number of the last entry is stored in the same step.
-- KEYS: schedule progress key...
-- ARGV: db source until_ms entry...
-- RESULT: [now in ms, how many of the entries are done, how many of these were done by this call, Redis's error for the
--   next entry or nil]
-- `source` is the number of the outbox's slot. The keys are the destinations, then their indexes. After `until_ms`
-- nothing is done: by then another proxy may have carried the entries, and the stored number may be deleted.
-- include others
-- include netstrings
local LASTS_MS = 86400000
-- How many terms of a slot are stored: it gets a new term at a failover, or when it is moved.
local TERMS = 16
local count = (#KEYS - first_key + 1) / 2
local index_name = {}
for i = first_key, first_key + count - 1 do
  index_name[KEYS[i]] = KEYS[i + count]
end
-- include clear_stale
-- include destination

-- A value is the time in ms until which it is stored, then `term number` for each term, the latest last.
local terms, numbers = {}, {}

local function remember(term, done)
  if not numbers[term] then
    terms[#terms + 1] = term
  end
  numbers[term] = done
end

local function progress_now()
  local words = { ms(now + LASTS_MS) }
  for i = math.max(#terms - TERMS + 1, 1), #terms do
    words[#words + 1] = terms[i] .. ' ' .. ms(numbers[terms[i]])
  end
  return table.concat(words, ' ')
end

-- Deletes slots from which nothing has come for LASTS_MS. Each call checks two, because it adds at most one.
local function forget_some()
  for _, other in ipairs(redis.pcall('HRANDFIELD', progress, 2)) do
    local kept = string.match(redis.call('HGET', progress, other), '^(%d+) ')
    if string.find(other, '^%d+$') and other ~= source and (tonumber(kept) or 0) < now then
      try('HDEL', progress, other)
    end
  end
end

-- Returns Redis's error, or nil.
local function carry_out(words)
  local verb, dest = words[1], words[2]
  if not (TYPES[verb] and index_name[dest]) then
    return { err = 'ERR the entry of an outbox cannot be read' }
  end
  local trouble = destination_refusal(verb, dest)
  if trouble then
    return trouble
  elseif verb ~= 'XADD' then
    clear_stale(dest, { unpack(words, 3) })
  end
  local reply = failure or redis.pcall(unpack(words))
  return type(reply) == 'table' and reply.err and reply or nil
end

-- Like carry_out, but also after an error that would end the script: the number of the last entry must be stored.
local function carried_out(words)
  local is_over, trouble = pcall(carry_out, words)
  return is_over and trouble or not is_over and (type(trouble) == 'table' and trouble or { err = trouble }) or nil
end

if now > tonumber(until_ms) then
  return { now, 0, 0, { err = 'TRYAGAIN the entries of an outbox came too late' } }
end
local before = redis.pcall('HGET', progress, source)
if type(before) == 'table' then
  return { now, 0, 0, before }
end
for term, number in string.gmatch(before or '', ' (%x+) (%d+)') do
  remember(term, tonumber(number))
end
-- The first write: if Redis refuses it, no entry has been executed.
try('HSET', progress, source, progress_now())
others_add(progress)
local done, fresh, trouble = 0, 0, failure
for i = first_entry, #ARGV do
  local term, number, at = string.match(ARGV[i], '^(%x+) (%d+) ()')
  if trouble then
    break
  elseif not term then
    trouble = { err = 'ERR the entry of an outbox cannot be read' }
  elseif tonumber(number) > (numbers[term] or 0) then
    trouble = carried_out(words_from(1, string.sub(ARGV[i], at)))
    if not trouble then
      remember(term, tonumber(number))
      fresh = fresh + 1
    end
  end
  done = done + (trouble and 0 or 1)
end
if done > 0 then
  redis.pcall('HSET', progress, source, progress_now())
end
forget_some()
return { now, done, fresh, trouble }
