-- Removes the elements in ARGV with their deadlines; returns how many existed.
-- NEEDS: try.lua clear.lua first_element remove
clear(ARGV, first_element)
if failure then
  return failure
end
local removed = 0
batches(first_element, #ARGV, function(from, to)
  removed = removed + (tonumber(remove(unpack(ARGV, from, to))) or 0)
end)
return failure or removed
