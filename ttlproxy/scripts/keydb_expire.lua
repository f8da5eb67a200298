-- EXPIREMEMBER and its variants: sets the deadline of one element, as KeyDB does.
-- KEYS: data index schedule
-- ARGV: origin how element...
-- RESULT: 1 set, or deleted because the time is past; 0 no such key or element
-- include words
-- include deadline
-- include any
-- include native
if kind ~= 'none' and not finders[kind] then
  return { err = 'ERR object type is unsupported' }
end
-- include check_type
local function expired()
  -- include expire
end
local reply = expired()
return type(reply) == 'number' and (reply > const.NOT_MET and 1 or 0) or reply
