-- LTRIM: the deadline of a value is removed with its last copy: see lib/list_clear.lua.
-- KEYS: data index schedule
-- ARGV: start stop
-- RESULT: the reply of the command
-- include list_clear
local length = redis.pcall('LLEN', data)

-- Returns values that may lose their last copy: those that LTRIM removes, or all that have deadlines, whichever are
-- fewer.
local function candidates()
  local from, to = tonumber(start), tonumber(stop)
  if type(length) == 'table' or not (from and to) then
    return {} -- the error is Redis's
  end
  from = math.min(from < 0 and math.max(length + from, 0) or from, length)
  to = math.max(math.min(to < 0 and length + to or to, length - 1), from - 1)
  if length - (to - from + 1) >= index_size(index) then
    return index_elements(index)
  end
  local found = {}
  local function note(value)
    found[#found + 1] = value
  end
  walk(0, from - 1, note)
  walk(to + 1, length - 1, note)
  return found
end

local values = candidates()
local reply = try('LTRIM', data, start, stop)
if reply.ok then
  clear_removed(values)
  if redis.call('EXISTS', data) == 0 or dry_run then
    index_drop(data, index, schedule)
  end
end
return reply
