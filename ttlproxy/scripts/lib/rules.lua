-- The rules of a database (core/expiry_actions.py), and how all proxies are told of changes. Each rule
-- has a key of its own; `rules` lists the patterns and has the version. It may hold anything, because
-- every client that sets rules may write there.
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

-- Deletes what stands in the place of the list and is none: proxies know the rules by themselves.
local function rules_make_room()
  if not ({ none = true, hash = true })[redis.call('TYPE', rules).ok] then
    try('DEL', rules)
  end
end

-- Higher than all before, even if the clock was set back.
local function next_version()
  local version = time[1] * 1000000 + time[2]
  local before = tonumber(redis.call('HGET', rules, const.VERSION)) or 0
  -- Beyond 2^53, numbers have gaps.
  return ms(before < 2 ^ 53 - 1 and math.max(version, before + 1) or version)
end
