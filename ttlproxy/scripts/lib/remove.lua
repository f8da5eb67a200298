local cleared, removed = 0, 0
batches(first_element, #ARGV, function(from, to)
  cleared = cleared + (tonumber(index_clear(index, unpack(ARGV, from, to))) or 0)
end)
if failure then
  return failure
end
batches(first_element, #ARGV, function(from, to)
  removed = removed + (tonumber(remove(unpack(ARGV, from, to))) or 0)
end)
index_was_cleared(data, index, schedule, cleared)
return failure or removed
