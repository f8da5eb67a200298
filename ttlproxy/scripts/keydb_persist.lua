-- PERSIST key member: removes the deadline of one element, as KeyDB does.
-- KEYS: data index schedule
-- ARGV: db single element...
-- RESULT: 1 removed; 0 no deadline or no such element
-- include any
-- include native
-- include check_type
local function persisted()
  -- include persist
end
local reply = persisted()
return type(reply) == 'number' and math.max(reply, 0) or reply
