-- Splits `how` into `command` and `options`, a list of the options that also has each one as a key.
-- NEEDS: how
-- GIVES: command options called
local options = {}
for word in string.gmatch(how, '%S+') do
  options[#options + 1] = word
  options[word] = true
end
local command = table.remove(options, 1)

-- Returns the words of a call: the command, the key, the options, and ARGV from number `from` to number `to`.
local function called(key, from, to)
  local words = { command, key, unpack(options) }
  for i = from, to do
    words[#words + 1] = ARGV[i]
  end
  return unpack(words)
end
