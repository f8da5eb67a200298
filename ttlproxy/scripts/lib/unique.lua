-- `elements`: those in ARGV from number `named` on, in steps of `step`, each once; `met`: the set of these.
-- NEEDS: named step
-- GIVES: elements met
local elements, met = {}, {}
for i = named, #ARGV, step do
  if not met[ARGV[i]] then
    met[ARGV[i]] = true
    elements[#elements + 1] = ARGV[i]
  end
end
