-- LEASE: items from the right end of a list become members of a set, with a deadline, in one step. One
-- that the set has already stays where it is, and the next is taken.
-- KEYS: data target index target_index schedule
-- ARGV: origin how
-- RESULT: the item, with a flag an array of at most `cap` of them; null where there is none. With a mark
--   [mark, that]
-- include words
-- include try
-- include clock
-- include deadline
-- include index
-- include list
-- include list_clear
-- include list_length
-- include events
-- include may
-- Entries that are looked at beyond as many as are wanted.
local LOOK = 1000
local wanted = tonumber(cap)
local there = redis.pcall('SISMEMBER', target, '')
if type(there) == 'table' then
  return there
end

-- A value is met first at its rightmost copy, which is the one that LREM takes from the right.
local function choose()
  local items, met, seen = {}, {}, 0
  local most = math.min(length, wanted + LOOK)
  while seen < most do
    local size = seen == 0 and math.min(wanted, 100) or 100
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

local function answer(reply)
  return mark == '' and reply or mark ~= '' and { mark, reply }
end

local items = choose()
if #items == 0 then
  return answer(false)
end
local before = index_first(target_index)
for _, item in ipairs(items) do
  index_set(target_index, item, at)
end
index_was_set(db, prefix, target, target_index, schedule, now, before, at)
-- Nothing is lent that cannot be taken away.
may('LREM', data, -1, items[1])
batches(1, #items, function(from, to)
  try('SADD', target, unpack(items, from, to))
end)
for _, item in ipairs(items) do
  try('LREM', data, -1, item)
end
if failure then
  return failure
end
clear_absent(items, 1)
notify('s', 'expire', db, target, items)
return answer(flag == '1' and items or items[1])
