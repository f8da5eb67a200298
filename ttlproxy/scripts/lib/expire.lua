-- Gives `at` as deadline to the elements in ARGV; returns the reply.
-- NEEDS: words.lua try.lua clock.lua deadline.lua index.lua index has data
-- include events
-- include each
-- include settle
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

-- Valkey allows two conditions, and each may refuse.
local function refuses(old)
  return forbids(string.sub(condition, 1, 2), old) or forbids(string.sub(condition, 3), old)
end

local before = index_first(index)
local dated, cleared = {}, 0

local function expire(element)
  if departed[element] or has(element) == 0 then
    return -2
  end
  local old = index_get(index, element)
  if refuses(old) then
    return 0
  end
  if at_once then
    cleared = cleared + 1
    index_clear(index, element)
    depart(element)
    return 2
  end
  index_set(index, element, at, before)
  dated[#dated + 1] = element
  departed[element] = at <= now
  return at <= now and 2 or 1
end

local replies = each(expire)
if failure then
  return failure
end
settle(before, dated, cleared)
if not failure then
  notify(class, 'expire', db, data, dated)
end
return failure or (flag == '1' and replies[1] or replies)
