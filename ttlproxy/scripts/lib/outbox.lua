-- Outboxes: commands that a rule sends to another slot of a Cluster wait in a list in the slot of the key, until a
-- proxy has carried them there (outbox_apply.lua). An entry is `term number ` and a command, a row of netstrings.
-- Within a term numbers grow, and the other slot stores the last number of each term. A term ends with the server's
-- replication history: a failover may lose entries that were carried already, and other entries must not get their
-- numbers.
-- NEEDS: try.lua clock.lua index.lua others.lua db nonce schedule index_name
-- GIVES: outbox_begin outbox_refusal outbox_add
local STATE = const.OUTBOX .. prefix .. slot_tag
local term, number

-- Call it before anything is delivered: writes that Redis may refuse are tried here. Returns Redis's error, or nil.
local function outbox_begin()
  if term then
    return
  end
  announce_guard()
  local info = redis.pcall('INFO', 'replication')
  local history = type(info) == 'string' and string.match(info, 'master_replid:(%x+)')
  local known = redis.pcall('HMGET', STATE, 'history', 'term', 'number')
  local trouble = failure or type(info) == 'table' and info or known.err and known
  if trouble or not history then
    return trouble or { err = 'ERR INFO does not tell the replication id' }
  elseif known[1] == history and known[2] then
    term, number = known[2], tonumber(known[3])
    return
  end
  term, number = nonce, 0
  others_add(STATE)
  local reply = redis.pcall('HSET', STATE, 'history', history, 'term', term, 'number', '0')
  return type(reply) == 'table' and reply or nil
end

-- Returns the error if nothing can be added now, else nil.
local function outbox_refusal(box)
  local there = redis.pcall('LLEN', box)
  if type(there) == 'table' then
    return there
  elseif there >= const.OUTBOX_MOST then
    return { err = 'ERR the outbox for the destination of a rule is full' }
  end
end

-- Adds commands, each a table of words. Returns Redis's error, or nil.
local function outbox_add(box, commands)
  local entries = {}
  for i, words in ipairs(commands) do
    local row = {}
    for at, word in ipairs(words) do
      row[at] = #word .. ':' .. word
    end
    entries[i] = term .. ' ' .. ms(number + i) .. ' ' .. table.concat(row)
  end
  local index = index_name[box]
  if not index_first(index) then
    others_add(box)
    index_set(index, '', now, nil)
    index_was_set(db, prefix, box, index, schedule, now, nil, now)
  end
  number = number + #entries
  local reply = failure or redis.pcall('HSET', STATE, 'number', ms(number))
  local trouble = type(reply) == 'table' and reply or nil
  batches(1, #entries, function(from, to)
    reply = trouble or redis.pcall('RPUSH', box, unpack(entries, from, to))
    trouble = trouble or type(reply) == 'table' and reply or nil
  end)
  return trouble
end
