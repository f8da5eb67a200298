-- `here`: the client's database. within(): calls `act` in another database and selects the client's again.
-- NEEDS: try.lua index.lua db
-- GIVES: here within
local here = actual_db(db)
if not here then
  return { err = const.UNKNOWN_DATABASE }
end

-- Not by try(), because a dry run too must read in the other database.
local function select_database(number)
  local reply = redis.pcall('SELECT', number)
  failure = failure or reply.err and reply or nil
end

local function within(database, act)
  if database == here then
    return act()
  end
  select_database(database)
  if failure then
    return
  end
  local result = act()
  select_database(here)
  return result
end
