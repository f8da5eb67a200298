-- LINSERT, LSET in a key with a rule of ONWRITE: a value without a deadline gets that of the rule, with equal values in
-- the list; a value with a deadline keeps it, except with REFRESH. The deadline of a replaced value is removed with its
-- last copy.
-- KEYS: data index schedule
-- ARGV: origin how word...
-- RESULT: the reply of the command
-- include words
-- include try
local command, element = string.upper(name), ARGV[#ARGV]
local function put()
  return try(command, data, unpack(ARGV, first_word))
end

-- LINSERT checks this word before the type of the key.
local is_side = ({ BEFORE = true, AFTER = true })[string.upper(ARGV[first_word])]
if command == 'LINSERT' and not is_side then
  return put()
end
-- include rule
-- include list
-- include timed_write
-- include list_maxlen
-- include maxlen
-- include rule_lists
-- include list_clear
local old, place = false, ''
if command == 'LSET' then
  old = redis.pcall('LINDEX', data, ARGV[first_word])
  place = old
else
  place = redis.pcall('LPOS', data, ARGV[first_word + 1])
end
-- No such place, or the element is already at this place and keeps its deadline.
if not place or type(place) == 'table' or (old == element and keeps) then
  return put()
end
local live, reply
if command == 'LINSERT' then
  local fits, _, _, left = has_room({ element }, 1)
  if not fits then
    return too_many()
  end
  live = left
end
write_timed(dated_by_rule({ element }), false, function()
  reply = put()
end)
if old and old ~= element then
  clear_removed({ old })
end
return failure or (live and live + 1) or reply
