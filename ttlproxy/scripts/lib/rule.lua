-- The rule of ONWRITE for a write. `how` is as in words.lua: the digit is 1 if elements that exist already keep their
-- deadlines, and there is a K if overwritten ones do too; without a rule there is no time. The mark is the jitter, in
-- percent. If the database of the client is one of several, there is a rule for each: `3=1+1000;0=1`.
-- NEEDS: words.lua index.lua how
-- GIVES: keeps too_many
if string.find(how, '=', 1, true) then
  local here = actual_db(db)
  if not here then
    return { err = const.UNKNOWN_DATABASE }
  end
  how = string.match(';' .. how, ';' .. here .. '=([^;]*)')
  local plus
  flag, condition, plus, amount, cap, evict, mark =
    string.match(how, '^(%d)(%a*)(%+?)(%d*)/?(%d*)(E?)#?(.*)$')
  base = plus == '+' and 1 or 0
end
local keeps = flag == '1'

-- Returns the error if MAXLEN leaves no room.
local function too_many()
  return {
    err = string.format('TTLMAXLEN a rule of ONWRITE allows this key %s elements at most', cap),
  }
end

-- With a jitter, each element gets a deadline of its own: `deadline` plus a random part of the jitter.
if mark ~= '' and amount ~= '' then
  math.randomseed(tonumber(redis.call('TIME')[2]))
  local most = tonumber(amount) * tonumber(mark) / 100

  function index_set_all(index, elements, deadline, before)
    announce_guard()
    for _, element in ipairs(elements) do
      index_set(index, element, deadline + math.floor(math.random() * most), before)
    end
  end
end
