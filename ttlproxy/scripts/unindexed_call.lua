-- Sends a command unchanged, while the slot of its keys is being moved to another master, and no master has an index of
-- them: TRYAGAIN if this one has an index now. It replaces scripts with more keys, which Redis refuses during a move.
-- KEYS:
-- ARGV: count index... word...
-- RESULT: the reply of the command, in the client's RESP version
-- include try
local first_word = 2 + ARGV[1]
-- In RESP3 a null ends an array of Lua. The replies to these commands are the same in RESP2, except for nulls.
local has_nulls = ({ HGETEX = true, HGETDEL = true })[string.upper(ARGV[first_word])]
redis.setresp(has_nulls and 2 or 3)
for i = 2, first_word - 1 do
  -- An error if the slot is leaving this master and the key is not here.
  if redis.pcall('EXISTS', ARGV[i]) == 1 then
    return redis.error_reply('TRYAGAIN the slot is on its way to another master')
  end
end
return try(unpack(ARGV, first_word))
