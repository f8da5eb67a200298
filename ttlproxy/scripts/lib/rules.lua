-- The rules of a database (core/expiry_actions.py), and the announcement of changes to all proxies. Each rule has a key
-- of its own; the hash `rules` lists the patterns and has the version. It may contain anything, because every client
-- that sets rules may write to it.
-- NEEDS: try.lua clock.lua index.lua rules db pattern
-- GIVES: rules_changed rules_make_room next_version
local function rules_changed(counts)
  if failure then
    return
  end
  local name = prefix .. const.RULES_CHANGED .. home_tag .. actual_db(db) .. ':' .. counts .. ':' .. pattern
  try('SET', name, '')
  try('DEL', name)
end

-- Deletes a key of another type in the place of the hash; proxies have the rules in their own memory.
local function rules_make_room()
  if not ({ none = true, hash = true })[redis.call('TYPE', rules).ok] then
    try('DEL', rules)
  end
end

-- Returns a version higher than all before, even if the clock was set back.
local function next_version()
  local version = time[1] * 1000000 + time[2]
  local before = tonumber(redis.call('HGET', rules, const.VERSION)) or 0
  -- From 2^53 on, numbers of Lua are not exact.
  return ms(before < 2 ^ 53 - 1 and math.max(version, before + 1) or version)
end
