-- Keyspace events as Redis names them: hexpire, hexpired and hpersist (7.4), with their fields (8.8,
-- src/notify.c), and events of the same form for the other types. `events` are the letters of notify-keyspace-events
-- that concern these. By pcall: if the client may not publish to the channel, there is no event.
-- NEEDS: index.lua
-- GIVES: notify
local function wants(letters)
  return string.find(events, letters)
end

local function publish_subkeys(key, name, at, elements)
  local sized = {}
  for i, element in ipairs(elements) do
    sized[i] = #element .. ':' .. element
  end
  local subkeys = table.concat(sized, ',')
  if wants('S') then
    redis.pcall('PUBLISH', '__subkeyspace' .. at .. key, name .. '|' .. subkeys)
  end
  if wants('T') then
    redis.pcall('PUBLISH', '__subkeyevent' .. at .. name, #key .. ':' .. key .. '|' .. subkeys)
  end
  if wants('I') and not string.find(key, '\n', 1, true) then
    for _, element in ipairs(elements) do
      redis.pcall('PUBLISH', '__subkeyspaceitem' .. at .. key .. '\n' .. element, name)
    end
  end
  if wants('V') then
    redis.pcall('PUBLISH', '__subkeyspaceevent' .. at .. name .. '|' .. key, subkeys)
  end
end

-- Publishes `event` (expire, expired, persist) for `elements` of `key`; `class` is the letter of its
-- type.
local function notify(class, event, db, key, elements)
  if dry_run or events == '' or #elements == 0 or not wants(class) then
    return
  end
  local number = actual_db(db)
  if not number then
    return
  end
  local name, at = class .. event, '@' .. number .. '__:'
  if wants('K') then
    redis.pcall('PUBLISH', '__keyspace' .. at .. key, name)
  end
  if wants('E') then
    redis.pcall('PUBLISH', '__keyevent' .. at .. name, key)
  end
  if wants('[STIV]') then
    publish_subkeys(key, name, at, elements)
  end
end
