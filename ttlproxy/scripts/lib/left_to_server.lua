-- A command that the server has itself: the server executes it if the key has no deadlines in an index. For such a
-- command `flag` is 2 or 3 instead of 0 or 1; 4 or 5 if a rule of ONEXPIRE that the proxy has not read yet may match
-- the key.
-- NEEDS: words.lua try.lua index.lua index
-- GIVES: is_left carry_out with_time
local is_left = flag > '1'
  and #ARGV < const.UNPACK_MAX
  and not index_may_have_entries(index)
  and not (flag > '3' and redis.call('EXISTS', prefix .. const.RULES .. slot_tag) == 1)
flag = flag % 2 == 1 and '1' or '0'

-- Sends the words, then FIELDS with their number, and all of ARGV from `first` on: fields, each of `step` words.
local function carry_out(words, first, step)
  words[#words + 1] = 'FIELDS'
  words[#words + 1] = (#ARGV - first + 1) / step
  for i = first, #ARGV do
    words[#words + 1] = ARGV[i]
  end
  local reply = try(unpack(words))
  if not failure then
    return reply
  end
  -- include noperm
  return noperm(failure.err, name) or failure
end

-- Adds the option of HSETEX and HGETEX for the time to the words; `instead` if `flag` is 1.
local function with_time(words, instead)
  if flag == '1' then
    words[#words + 1] = instead
  elseif amount ~= '' then
    words[#words + 1] = base == 1 and 'PX' or 'PXAT'
    words[#words + 1] = amount
  end
  return words
end
