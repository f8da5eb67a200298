-- MAXLEN: at most `cap` elements are live after a write; elements past their deadline do not count, even if they are
-- not reaped yet. With `evict`, other elements are evicted to make room: they become due now, and the link reaps them.
-- Each type has size(); copies(element), how often the key has an element; and some(cursor). In a list there may be
-- copies of an element, which share its deadline.
-- NEEDS: words.lua clock.lua deadline.lua index.lua size copies some index data schedule
-- GIVES: has_room past_deadline

-- Evicts `over` elements: those with the earliest deadlines first, those without a deadline last; none of the set
-- `written`. The elements of the set `gone` are the first `past` entries of the index. Returns how many it has evicted.
local function evict_others(over, written, gone, past)
  local before, chosen, all = (index_follow(data, index, schedule, now)), {}, over

  local function choose(elements)
    for _, element in ipairs(elements) do
      if over <= 0 then
        return
      end
      local there = not (written[element] or gone[element]) and copies(element)
      if there and there > 0 then
        gone[element] = true
        chosen[#chosen + 1] = element
        over = over - there
      end
    end
  end

  local place = past
  repeat
    local dated = index_elements(index, place, const.PAGE)
    choose(dated)
    place = place + const.PAGE
  until over <= 0 or #dated < const.PAGE
  local left
  while over > 0 and left ~= false do
    local elements
    elements, left = some(left)
    choose(elements)
  end
  for _, element in ipairs(chosen) do
    index_evict(index, element, now)
  end
  if chosen[1] then
    index_was_set(db, prefix, data, index, schedule, now, before, now - 1)
  end
  return all - over
end

-- Returns the set of elements past their deadline, and how many entries of the index these have. If the write would
-- give new copies to one of them, the write counts as if it were before all deadlines: then the set is empty.
local function past_deadline(elements)
  local gone, due = {}, index_due(index, now, -1)
  for _, element in ipairs(due) do
    gone[element] = true
  end
  for _, element in ipairs(class == 'l' and elements or {}) do
    if gone[element] then
      return {}, 0
    end
  end
  return gone, #due
end

-- Returns the number of live elements, and the results of past_deadline().
local function count_live(elements)
  local live, gone, past = size(), past_deadline(elements)
  for element in pairs(gone) do
    live = live - copies(element)
  end
  return live, gone, past
end

-- Returns the set of elements that are written; how many of them are live; and how many are live again by the write.
local function count_written(elements, gone)
  local written, kept, revived = {}, 0, 0
  for _, element in ipairs(elements) do
    if not written[element] then
      written[element] = true
      if not gone[element] then
        kept = kept + copies(element)
      elseif flag ~= '1' then
        revived = revived + copies(element)
      end
    end
  end
  return written, kept, revived
end

local function drop_gone(elements, gone)
  local all, kept = #elements, 0
  for i = 1, all do
    local element = elements[i]
    elements[i] = nil
    if not gone[element] then
      kept = kept + 1
      elements[kept] = element
    end
  end
end

-- Returns whether there is room for `elements`, of which `added` are new. Call it before the write.
-- May evict other elements to make room. There is always room if no element is new, and for elements that are removed
-- at once because their deadline is past. With `existing` (XX) only existing elements are written: those past their
-- deadline are removed from `elements`. With `may_trim`, for a list, there is room even if `elements` alone are too
-- many; then the second result is how many copies of `elements` must be removed. The third result is how many of
-- `elements` are live again by the write, as new ones; the fourth one how many elements are live before the write,
-- without the evicted ones.
local function has_room(elements, added, existing, may_trim)
  if cap == '' or #elements == 0 then
    return true, 0, 0
  end
  local limit, at_once = tonumber(cap), at and at <= now
  local live, gone, past = count_live(elements)
  if existing then
    drop_gone(elements, gone)
  end
  local written, kept, revived = count_written(elements, gone)
  local grows = at_once and 0 or added + revived
  local over = live + grows - (at_once and kept or 0) - limit
  local surplus = kept + grows - limit
  if grows > 0 and over > 0 and (evict == '' or surplus > 0 and not may_trim) then
    return false
  end
  if over > 0 and evict ~= '' then
    live = live - evict_others(over, written, gone, past)
  end
  return true, evict ~= '' and grows > 0 and math.max(surplus, 0) or 0, revived, live
end
