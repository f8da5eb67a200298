-- Gives the elements in ARGV, from number `named` on in steps of `step`, the deadline of fast_deadline.lua.
-- `dated`: whether Redis accepted every step. An earlier first deadline is written to the schedule, and announced if it
-- comes soon, before it is written to the index: if Redis refuses a step, either the index is unchanged, and the
-- general part of the script does everything, or what that part does not repeat is done.
-- NEEDS: fast_deadline.lua clock.lua named step data index schedule
-- GIVES: dated
local dated = true
if is_earlier then
  local is_soon = deadline - now < const.ANNOUNCED_MS or slot_tag ~= '' and redis.pcall('ZCARD', schedule) == 0
  local guard = prefix .. const.ANNOUNCEMENT .. slot_tag
  dated = not is_soon or redis.pcall('SET', guard, '', 'XX') == false and redis.pcall('DEL', guard) == 0
  dated = dated
    and (
      first and redis.pcall('ZADD', schedule, 'LT', deadline, data)
      or redis.pcall('ZADD', schedule, deadline, data)
    )
  dated = type(dated) == 'number'
  if dated and is_soon then
    local name = prefix .. const.ANNOUNCEMENT .. known .. ':' .. deadline .. ':' .. string.sub(index, #prefix + 1)
    dated = redis.pcall('SET', name, '').ok and redis.pcall('DEL', name) == 1
  end
end
if dated and #ARGV < named + step then
  dated = type(redis.pcall('ZADD', index, deadline, ARGV[named])) == 'number'
elseif dated then
  local entries = {}
  for i = named, #ARGV, step do
    entries[#entries + 1] = deadline
    entries[#entries + 1] = ARGV[i]
  end
  dated = type(redis.pcall('ZADD', index, unpack(entries))) == 'number'
end
