-- A command as it came, while the slot of its keys is on its way to another master, and no master has an index
-- of them: TRYAGAIN if one has by now. It stands for scripts that name more keys, which Redis refuses meanwhile.
-- KEYS:
-- ARGV: count index... word...
-- RESULT: the command's, in the client's RESP version
-- include try
local first_word = 2 + ARGV[1]
-- In RESP3 a null ends an array of Lua. The replies of these are the same in both, but for the form of a null.
local has_nulls = ({ HGETEX = true, HGETDEL = true })[string.upper(ARGV[first_word])]
redis.setresp(has_nulls and 2 or 3)
for i = 2, first_word - 1 do
  -- A key that the master of a leaving slot lacks is an error there.
  if redis.pcall('EXISTS', ARGV[i]) == 1 then
    return redis.error_reply('TRYAGAIN the slot is on its way to another master')
  end
end
return try(unpack(ARGV, first_word))
