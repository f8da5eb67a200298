-- Gives `at` as deadline to the elements in ARGV; returns the reply.
-- NEEDS: words.lua try.lua clock.lua deadline.lua index.lua events.lua each.lua deadlines_changed.lua
-- NEEDS: index has data schedule
local function forbids(word, old)
  if word == 'NX' then
    return old
  elseif word == 'XX' then
    return not old
  elseif word == 'GT' then
    return not old or old >= at
  elseif word == 'LT' then
    return old and old <= at
  end
end

-- Valkey allows two conditions; both must be met.
local function refuses(old)
  return forbids(string.sub(condition, 1, 2), old) or forbids(string.sub(condition, 3), old)
end

local before = index_follow(data, index, schedule, now)
local dated, cleared = {}, 0

local function expire(element)
  if is_past[element] or has(element) == 0 then
    return const.NO_ELEMENT
  end
  local old = index_get(index, element)
  if refuses(old) then
    return const.NOT_MET
  end
  if at_once then
    cleared = cleared + 1
    index_clear(index, element)
    remove_at_end(element)
    return const.EXPIRED
  end
  index_set(index, element, at, before)
  dated[#dated + 1] = element
  is_past[element] = at <= now
  return at <= now and const.EXPIRED or const.DEADLINE_SET
end

local replies = each(expire)
if failure then
  return failure
end
deadlines_changed(before, dated, cleared)
if not failure then
  notify(class, 'expire', db, data, dated)
end
return failure or (flag == '1' and replies[1] or replies)
