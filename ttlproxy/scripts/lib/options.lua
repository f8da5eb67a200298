-- `how`, a command and its options in one word: the command, the options as a list, and each as a key.
local options = {}
for word in string.gmatch(how, '%S+') do
  options[#options + 1] = word
  options[word] = true
end
local command = table.remove(options, 1)

-- The command with its options, on a key, and words of ARGV.
local function called(key, from, to)
  local words = { command, key, unpack(options) }
  for i = from, to do
    words[#words + 1] = ARGV[i]
  end
  return unpack(words)
end
