-- Checks managed keys again, because somebody may have changed them without a proxy.
-- READS
-- KEYS: key...
-- ARGV: turn
-- RESULT: for each key its first deadline in ms; -1 without an index; null if the index must be swept: the key does not
--   exist, expires at another time, or lacks an element that has a deadline, or a key of another type is in its place
--   or in that of the index
-- The keys are all data keys, then all their indexes. Of many deadlines a few are checked, in the next turn others;
-- none of a long list.
local LOOKED_AT, SHORT = 8, 128
local OUTBOX = const.OUTBOX .. prefix
local data
-- include index
-- include finders

-- The entries of an outbox are not elements of its index.
local function has_all(kind, elements)
  if string.sub(data, 1, #OUTBOX) == OUTBOX or kind == 'list' and redis.call('LLEN', data) > SHORT then
    return true
  end
  for _, element in ipairs(elements) do
    if not exists(kind, element) then
      return false
    end
  end
  return true
end

local function first_of(index)
  local first = index_page(index, 0, 1)
  if first.err then
    return false
  elseif not first[2] then
    return const.NO_DEADLINE
  end
  local kind = redis.call('TYPE', data).ok
  if not (finders[kind] and expiry_is_noted(data, index)) then
    return false
  end
  local pages = math.ceil(index_size(index) / LOOKED_AT)
  return has_all(kind, index_elements(index, turn % pages * LOOKED_AT, LOOKED_AT)) and bound_of(tonumber(first[2]), index_ends(index))
end

local firsts = {}
local all = (#KEYS - first_key + 1) / 2
for at = first_key, first_key + all - 1 do
  data = KEYS[at]
  firsts[#firsts + 1] = first_of(KEYS[all + at])
end
return firsts
