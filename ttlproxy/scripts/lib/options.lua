-- Splits `how`: `command`, and `options`, which has the options as a list and each also as a key.
-- NEEDS: how
-- GIVES: command options called
local options = {}
for word in string.gmatch(how, '%S+') do
  options[#options + 1] = word
  options[word] = true
end
local command = table.remove(options, 1)

-- The words of a call: the command, the key, the options, and ARGV from one place to another.
local function called(key, from, to)
  local words = { command, key, unpack(options) }
  for i = from, to do
    words[#words + 1] = ARGV[i]
  end
  return unpack(words)
end
