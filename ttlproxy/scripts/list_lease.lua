-- LEASE: moves elements from the right end of a list to a set, with a deadline, in one step. An element that the set
-- already has stays in the list, and the next one is moved.
-- KEYS: data target index target_index schedule
-- ARGV: origin how
-- RESULT: the element, with flag 1 an array of at most `cap` elements; null if there is none. With a condition, that
--   and the token: see lib/leased.lua
-- include words
-- include deadline
-- include list_clear
-- include list_length
-- include events
-- How many more entries than `wanted` are read at most.
local LOOK = 1000
local wanted = tonumber(cap)
local there = redis.pcall('SISMEMBER', target, '')
if type(there) == 'table' then
  return there
end

-- The walk goes from the right, as LREM does below, so it finds the copy of a value that LREM removes.
local function choose()
  local items, met, seen = {}, {}, 0
  local most = math.min(length, wanted + LOOK)
  while seen < most do
    local size = seen == 0 and math.min(wanted, const.PAGE) or const.PAGE
    local page = redis.call('LRANGE', data, -seen - size, -seen - 1)
    for i = #page, 1, -1 do
      local item = page[i]
      if not met[item] and redis.call('SISMEMBER', target, item) == 0 then
        items[#items + 1] = item
        if #items == wanted then
          return items
        end
      end
      met[item] = true
    end
    seen = seen + size
  end
  return items
end

-- Checks whether the client may call a command that follows; if not, Redis's error is in `failure`. Redis 6.2 has no
-- acl_check_cmd; there the command is tried on a key that does not exist. The client may read the key itself, because
-- the script has read it.
local function may(command, key, ...)
  if not redis.acl_check_cmd then
    try(command, beside(index, const.NONE), ...)
  elseif not failure and not redis.acl_check_cmd(command, key, ...) then
    try(command, key, ...)
  end
end

local items = choose()
if #items == 0 then
  return false
end
local before = index_follow(target, target_index, schedule, now)
for _, item in ipairs(items) do
  index_set(target_index, item, at)
end
index_was_set(db, prefix, target, target_index, schedule, now, before, at)
-- No element is leased if the client may not remove it from the list.
may('LREM', data, -1, items[1])
try_all('SADD', target, items, 1)
for _, item in ipairs(items) do
  try('LREM', data, -1, item)
end
if failure then
  return failure
end
clear_removed(items)
notify('s', 'expire', db, target, items)
local reply = flag == '1' and items or items[1]
return condition == '' and reply or { reply, at }
