-- Executes the commands that are deferred for a key (deferred_set.lua), one by one, in the order of their due times;
-- each is removed from its hash in the same step. A command that Redis refuses stays, and the next ones are executed.
-- A command that no proxy has signed is not executed, and is checked again after an hour.
-- NEEDS: try.lua clock.lua index.lua others.lua schedule entries data index limit actions_left worked
-- NEEDS: deferred.lua deferred_names.lua signed.lua reschedule
-- GIVES: reap_deferred

-- The limits of one call: how many commands it reads, and how many bytes they have together. Each word costs 300 ns, as
-- much as a few hundred bytes, and counts as WORD bytes.
local MOST_SEEN, MOST_BYTES, WORD = 1000, 1048576, 256
local SET_ASIDE_MS = 3600000

-- A pushed value that is not in the list must not get the deadline of an equal value that was removed before. A value
-- that is in the list shares its deadline; if that is past, the push waits.
local function clear_stale_deadlines(list, list_index, values)
  if index_size(list_index) == 0 then
    return
  end
  local cleared = 0
  for _, value in ipairs(values) do
    local deadline = index_get(list_index, value)
    local there = deadline and redis.pcall('LPOS', list, value)
    if there and deadline < now then
      return { err = 'TRYAGAIN an equal element has expired, but is not removed yet' }
    elseif deadline and not there then
      cleared = cleared + (tonumber(index_clear(list_index, value)) or 0)
    end
  end
  index_was_cleared(list, list_index, schedule, cleared)
end

-- Deletes the deadlines of a key, and removes it from `entries`, which are written to the schedule later.
local function drop_deadlines(key, key_index)
  index_drop(key, key_index, schedule)
  for i = #entries, 2, -2 do
    if entries[i] == key then
      table.remove(entries, i)
      table.remove(entries, i - 1)
    end
  end
end

-- Executes one command. Returns Redis's error, or nil.
local function run(command, target_index)
  local name, target = command[1], command[2]
  local trouble
  if name == 'LPUSH' or name == 'RPUSH' then
    trouble = clear_stale_deadlines(target, target_index, { unpack(command, 3) })
  elseif name == 'DEL' or name == 'UNLINK' then
    drop_deadlines(target, target_index)
  end
  local reply = trouble or failure or redis.pcall(unpack(command))
  return type(reply) == 'table' and reply.err and reply or nil
end

-- Returns the words of a command that a proxy has signed for this key; nil for anything else.
local function signed_command(packed, target)
  local words, signature = deferred_words(packed, target)
  return words and signature == signature_of(const.DEFERRED, words) and words or nil
end

-- Returns the ids of the commands that were executed or are not in the hash, the ids of the unsigned ones, and Redis's
-- first error.
local function carry_out(ids, most)
  local target, target_index = deferred_target(data), prefix .. string.sub(data, #LATER + 1)
  local done, unsigned, size, trouble = {}, {}, 0, nil
  for _, id in ipairs(ids) do
    if #done >= most or size > MOST_BYTES then
      break
    end
    local packed = redis.call('HGET', data, id)
    local command = packed and signed_command(packed, target)
    local refused = command and run(command, target_index)
    trouble = trouble or refused
    if packed and not command then
      unsigned[#unsigned + 1] = id
    elseif not refused then
      done[#done + 1] = id
    end
    size = size + #(packed or '') + WORD * #(command or '')
  end
  return done, unsigned, trouble
end

local function set_aside(ids)
  local dated = {}
  for _, id in ipairs(ids) do
    dated[#dated + 1] = ms(now + SET_ASIDE_MS)
    dated[#dated + 1] = id
  end
  entries_write(index, dated, {})
end

local function reap_deferred()
  -- Changes nothing, but fails if executed commands could not be removed. It is also the first write, after which a
  -- full server refuses no command of the script.
  try('HDEL', beside(index, const.NONE), '')
  local due = index_due(index, now, MOST_SEEN)
  if failure or due.err then
    failure = failure or due
    return
  end
  local late = due[1] and now - index_first(index) or 0
  local done, unsigned, trouble = carry_out(due, math.min(limit, actions_left))
  actions_left = actions_left - #done - #unsigned
  worked = worked + 15 + 13 * (#done + #unsigned)
  batches(1, #done, function(from, to)
    try('HDEL', data, unpack(done, from, to))
    index_clear(index, unpack(done, from, to))
  end)
  set_aside(unsigned)
  others_gone(data)
  if failure then
    return
  end
  local first = reschedule()
  return trouble or { #done, first or const.NO_DEADLINE, 0, 'deferred', late, 0, 0, #unsigned }
end
