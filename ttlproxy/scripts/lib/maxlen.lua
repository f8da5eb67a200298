-- MAXLEN: at most `cap` elements are live after a write; elements past their deadline do not count, even
-- if they are not reaped yet. With `evict` others make room: their deadline becomes now, and the link
-- reaps them. Each type has size(), copies(element), how often it has an element, some(place), and
-- `copies_share`: whether it has copies of an element, which share its deadline.
-- NEEDS: words.lua clock.lua deadline.lua index.lua size copies copies_share some index data schedule
-- GIVES: has_room past_deadline

-- Evicts `over` elements: those with the earliest deadlines first, those without a deadline last.
-- It spares the `written` ones; the elements `gone` already are the first `past` entries of the index.
-- Returns how many it has evicted.
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

-- Which elements are past their deadline, as a set; how many index entries those have. If the write of
-- `elements` brings copies back, it counts as one before their deadline, when nothing was past its own.
local function past_deadline(elements)
  local gone, due = {}, index_due(index, now, -1)
  for _, element in ipairs(due) do
    gone[element] = true
  end
  for _, element in ipairs(copies_share and elements or {}) do
    if gone[element] then
      return {}, 0
    end
  end
  return gone, #due
end

-- The number of live elements, and what past_deadline() tells.
local function count_live(elements)
  local live, gone, past = size(), past_deadline(elements)
  for element in pairs(gone) do
    live = live - copies(element)
  end
  return live, gone, past
end

-- Which elements are written; how many of them are live; how many come back because of the write.
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

-- Whether there is room for `elements`; `added` of them are new. Call it before the write.
-- May evict others to make room. There is always room if none of them is new, and for elements that
-- go at once because their deadline is past. With `existing` (XX) only existing elements are written:
-- those past their deadline are dropped from `elements`. A list `may_trim`, where others making room is not
-- enough: then the second result is how many of its own copies of `elements` must go. The third one is
-- how many of `elements` come back, as new ones; the fourth one how many elements are live before the
-- write, without those that make room.
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
