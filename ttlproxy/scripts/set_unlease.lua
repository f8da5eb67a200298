-- UNLEASE: removes elements whose lease still has the token.
-- KEYS: data index schedule
-- ARGV: token element...
-- RESULT: how many were removed
-- include set
-- include check_type
-- include leased
-- include clear
local done, met = {}, {}
for i = first_element, #ARGV do
  local item = ARGV[i]
  if not met[item] and is_leased(item) then
    done[#done + 1] = item
  end
  met[item] = true
end
clear(done, 1)
local removed = remove(done, 1)
return failure or removed
