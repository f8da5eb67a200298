-- `values`: those that a push adds, each once. `pushed`: how many it adds, with duplicates.
-- NEEDS: first_element
-- GIVES: values pushed met
local values, met = {}, {}
for i = first_element, #ARGV do
  if not met[ARGV[i]] then
    met[ARGV[i]] = true
    values[#values + 1] = ARGV[i]
  end
end
local pushed = #ARGV - first_element + 1
