-- Clears the deadlines of the values, from number `first` on, that are not in the list. A stale entry does no harm: it is
-- cleared when the value is pushed again, and reaped when it is due.
-- NEEDS: index.lua list.lua index data schedule
-- GIVES: clear_absent clear_removed
local function clear_absent(values, first)
  local dated, cleared = {}, 0
  for i = first, #values do
    if index_get(index, values[i]) then
      dated[#dated + 1] = values[i]
    end
  end
  look_for(dated, 1)
  for _, value in ipairs(dated) do
    if has(value) == 0 then
      cleared = cleared + (tonumber(index_clear(index, value)) or 0)
    end
  end
  index_was_cleared(data, index, schedule, cleared)
end

-- `clear_absent` after values were removed. A dry run does not know which values are left, so it assumes that one value
-- with a deadline is not.
local function clear_removed(values)
  if dry_run then
    index_get(index, '')
    has('')
    index_was_cleared(data, index, schedule, index_clear(index, ''))
    return
  end
  clear_absent(values, 1)
end
