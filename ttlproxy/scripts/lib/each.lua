-- Returns a list of answer(element) for each element, up to the first failure.
-- NEEDS: try.lua first_element
-- GIVES: each
local function each(answer)
  local replies = {}
  for i = first_element, #ARGV do
    if not failure then
      replies[#replies + 1] = answer(ARGV[i])
    end
  end
  return replies
end
