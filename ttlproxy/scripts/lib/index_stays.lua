-- The fast path of a native write begins here, before any function is made, which is half of what a script
-- costs. `index_stays`: whether the write leaves all deadlines as they are, because the elements in ARGV, from
-- number `named` on in steps of `step`, have none, or are there and keep theirs. `finder` is the command that
-- finds an element which keeps its deadline, false if none does. If the index does not stay, or if Redis
-- refuses the write, the script goes on below and begins again.
-- NEEDS: named step finder index data
-- GIVES: index_stays
local index_stays = not dry_run and not counting and #ARGV < const.LONG_PAGE
if index_stays then
  local deadlines
  if #ARGV < named + step then
    local deadline = redis.pcall('ZSCORE', index, ARGV[named])
    deadlines = deadline and { deadline }
  else
    local elements = {}
    for i = named, #ARGV, step do
      elements[#elements + 1] = ARGV[i]
    end
    deadlines = redis.pcall('ZMSCORE', index, unpack(elements))
    index_stays = not deadlines.err
  end
  for i = 1, deadlines and #deadlines or 0 do
    if deadlines[i] and index_stays then
      local dated = finder and type(deadlines[i]) == 'string'
      local there = dated and redis.pcall(finder, data, ARGV[named + (i - 1) * step])
      index_stays = there == 1 or type(there) == 'string'
    end
  end
end
