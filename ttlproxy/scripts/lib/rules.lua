-- The rules of a database (core/expiry_actions.py), and how all proxies are told that they change. Each stands in a key
-- of its own; `rules` lists them, and says in which version they are. Every client that sets rules may
-- write there, and may have put anything in its place.
local function rules_changed(counts)
  local name = prefix .. '!rules:' .. actual_db(db, prefix) .. ':' .. counts .. ':' .. pattern
  try('SET', name, '')
  try('DEL', name)
end

-- What is no list of rules makes room for one: proxies know the rules themselves.
local function rules_make_room()
  if not ({ none = true, hash = true })[redis.call('TYPE', rules).ok] then
    try('DEL', rules)
  end
end

-- Later than all before, though the clock may have been set back.
local function next_version()
  local version = time[1] * 1000000 + time[2]
  local before = tonumber(redis.call('HGET', rules, 'version')) or 0
  -- Beyond that, numbers have gaps.
  return ms(before < 2 ^ 53 - 1 and math.max(version, before + 1) or version)
end
