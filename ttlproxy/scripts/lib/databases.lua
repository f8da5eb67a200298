-- `here`: the client's database. within(): calls `act` in another database, and comes back.
-- NEEDS: try.lua index.lua db
-- GIVES: here within
local here = actual_db(db)
if not here then
  return { err = const.UNKNOWN_DATABASE }
end

local function within(database, act)
  if database == here then
    return act()
  end
  try('SELECT', database)
  if failure then
    return
  end
  local result = act()
  try('SELECT', here)
  return result
end
