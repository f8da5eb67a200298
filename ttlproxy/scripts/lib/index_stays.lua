-- The beginning of the fast path of a native write. It comes before any function is made, because that is half of the
-- cost of a script. `index_stays`: whether the write changes no deadline, because the elements in ARGV, from number
-- `named` on in steps of `step`, have none, or exist and keep theirs. `finder` is the command that looks for an element
-- that keeps its deadline; false if the write keeps none. If `index_stays` is false, or if Redis refuses the write, the
-- general part of the script does everything.
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
