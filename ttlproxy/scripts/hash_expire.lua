-- Sets the deadline of hash fields.
-- KEYS: data index schedule
-- ARGV: origin how element...
-- RESULT: for each field 1 set, 0 condition not met, 2 deleted because the time is past, -2 no such field
local finder = 'HEXISTS'
-- include fast_expire
-- include words
-- include hash
-- include native
-- include left_to_server
if is_left then
  local unit = string.find(name, 'pexpire', 1, true) and 1 or 1000
  local words = { name, data, string.format('%.0f', amount / unit) }
  for word in string.gmatch(condition, '..') do
    words[#words + 1] = word
  end
  return carry_out(words, first_element, 1)
end
-- include check_type
-- include expire
