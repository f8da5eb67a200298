-- The rules of a database (actions.py), and how all proxies are told that they change.
local function rules_changed(counts)
  local name = prefix .. '!rules:' .. actual_db(db, prefix) .. ':' .. counts
  try('SET', name, '')
  try('DEL', name)
end

-- Later than all before, though the clock may have been set back.
local function next_version()
  local version = time[1] * 1000000 + time[2]
  return ms(math.max(version, (tonumber(redis.call('HGET', rules, 'version')) or 0) + 1))
end
