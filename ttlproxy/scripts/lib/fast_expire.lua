-- The fast path of a command that sets the deadline of elements, if all of them exist, or none. In a list only for one
-- element, because the general part looks for many in one walk.
-- NEEDS: finder first_element data
local named, step, fast_how = first_element, 1, '^(%d)(%+?)(%d+)$'
-- include fast_deadline
if deadline and (class ~= 'l' or #ARGV == first_element) and not (field_ttls and class == 'h') then
  local absent = (class == 'h' or class == 's') and 0
  local replies, there, readable = {}, 0, true
  for i = first_element, #ARGV do
    local found = redis.pcall(finder, data, ARGV[i])
    readable = readable and type(found) ~= 'table'
    there = there + (found == absent and 0 or 1)
    replies[#replies + 1] = found == absent and const.NO_ELEMENT or const.DEADLINE_SET
  end
  local reply = digit == '1' and replies[1] or replies
  if readable and there == 0 then
    return reply
  elseif readable and there == #replies then
    -- include fast_date
    if dated then
      return reply
    end
  end
end
