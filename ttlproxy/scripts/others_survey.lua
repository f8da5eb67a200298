-- Counts deferred commands, and elements kept for TAKE.
-- READS IN ALL SLOTS
-- KEYS: others
-- ARGV: sample words lists
-- At most `sample` names of other internal keys are read, picked at random. In front of a Cluster, `words` has the
-- tags, of three characters, of the slots to read, and `others` is the key of any slot; else `words` is empty. If
-- `lists` is 1, the names are listed.
-- RESULT: [names in all, names read, deferred commands, when the first is due, kept elements, when the first was due,
--   names]; times are in ms, -1 for none
-- include index
local LATER, KEPT = prefix .. const.LATER, prefix .. const.KEPT
-- A kept element, its value and its deadline are three items of a list.
local ITEMS = 3
local places, total = {}, 0

-- A key of another type may be in the place of each key.
local function note(place)
  local size = tonumber(redis.pcall('SCARD', place)) or 0
  if size > 0 then
    places[#places + 1] = { place, total, total + size }
    total = total + size
  end
end

if words == '' then
  note(others)
end
for at = 1, #words, 3 do
  note(prefix .. const.OTHERS .. ':{' .. string.sub(words, at, at + 2) .. '}')
end

local found = { [LATER] = { count = 0, first = -1 }, [KEPT] = { count = 0, first = -1 } }

local function add(kind, count, due)
  if count > 0 and due then
    local sum = found[kind]
    sum.count = sum.count + count
    sum.first = sum.first < 0 and due or math.min(sum.first, due)
  end
end

local function look(name)
  if string.sub(name, 1, #LATER) == LATER then
    local page = index_page(prefix .. const.TAGGED .. name, 0, 1)
    add(LATER, tonumber(redis.pcall('HLEN', name)) or 0, tonumber(page[2]))
  elseif string.sub(name, 1, #KEPT) == KEPT then
    local items = tonumber(redis.pcall('LLEN', name)) or 0
    add(KEPT, math.floor(items / ITEMS), tonumber(redis.pcall('LINDEX', name, ITEMS - 1)))
  end
end

local most, looked_at, list = math.min(total, tonumber(sample)), 0, {}
for _, place in ipairs(places) do
  local name, before, after = unpack(place)
  -- The share of each place, rounded so that the sum is `most`.
  local share = math.floor(after * most / total) - math.floor(before * most / total)
  local names = share > 0 and redis.pcall('SRANDMEMBER', name, share) or {}
  for _, each in ipairs(names) do
    look(each)
    if lists == '1' then
      list[#list + 1] = each
    end
  end
  looked_at = looked_at + #names
end
local later, kept = found[LATER], found[KEPT]
return { total, looked_at, later.count, later.first, kept.count, kept.first, list }
