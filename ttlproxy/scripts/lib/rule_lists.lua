-- Returns the values that get the rule's deadline when they are put into a list: with REFRESH all, else those without
-- a deadline, and those with a stale one, which are not in the list. The index is read first, because a list is slower.
-- NEEDS: rule.lua index.lua list.lua index
-- GIVES: dated_by_rule
local function dated_by_rule(values)
  if not keeps then
    return values
  end
  local found, dated = {}, {}
  for _, value in ipairs(values) do
    local list = index_get(index, value) and dated or found
    list[#list + 1] = value
  end
  look_for(dated, 1)
  for _, value in ipairs(dated) do
    if has(value) == 0 then
      found[#found + 1] = value
    end
  end
  return found
end
