-- HGETEX: the values of hash fields; their deadline is set (to `amount`), removed (flag 1) or kept.
-- KEYS: data index schedule
-- ARGV: origin how field...
-- RESULT: for each field its value, nil if there is none
-- include words
-- include hash
-- include native
-- include left_to_server
if is_left then
  return carry_out(with_time({ name, data }, 'PERSIST'), first_field, 1)
end
-- include check_type
-- include events
-- include deadlines_changed
local before = index_follow(data, index, schedule, now)
local dated, persisted, cleared = {}, {}, 0

local function change(field)
  if flag == '1' then
    local found, published = index_persist(index, field)
    if found == 1 then
      cleared = cleared + 1
      persisted[#persisted + 1] = not published and field or nil
    end
  elseif at_once then
    cleared = cleared + (tonumber(index_clear(index, field)) or 0)
    remove_at_end(field)
  elseif at then
    index_set(index, field, at, before)
    dated[#dated + 1] = field
  end
end

local values = {}
for i = first_field, #ARGV do
  local value = not is_past[ARGV[i]] and redis.pcall('HGET', data, ARGV[i])
  if type(value) == 'table' then
    return value
  end
  if value then
    change(ARGV[i])
  end
  if failure then
    return failure
  end
  values[#values + 1] = value
end
deadlines_changed(before, dated, cleared)
if failure then
  return failure
end
notify(class, 'expire', db, data, dated)
notify(class, 'persist', db, data, persisted)
return values
