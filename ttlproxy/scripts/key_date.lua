-- Gives elements without a deadline the deadline of a rule of ONWRITE, one page of the key at a time.
-- KEYS: data index schedule
-- ARGV: db cursor of_hash of_set of_zset of_list
-- RESULT: [the next cursor, 0 at the end; how many got a deadline]
-- The last four are the rules for each type, as in lib/rule.lua; '' if there is none.
local kind = redis.call('TYPE', data).ok
local rule_words = ({ hash = of_hash, set = of_set, zset = of_zset, list = of_list })[kind] or ''
-- include deadline_by_rule
if not rule_ttl then
  return { '0', 0 }
end
local elements, following = {}, '0'
if kind == 'list' then
  elements = redis.call('LRANGE', data, cursor, cursor + const.LONG_PAGE - 1)
  following = elements[const.LONG_PAGE] and ms(cursor + const.LONG_PAGE) or '0'
else
  local scan = (const.SCANS)[kind]
  local page = redis.call(scan, data, cursor, 'COUNT', const.LONG_PAGE)
  following = page[1]
  for i = 1, #page[2], kind == 'set' and 1 or 2 do
    elements[#elements + 1] = page[2][i]
  end
end
local before, dated = (index_follow(data, index, schedule, now)), 0
for _, element in ipairs(elements) do
  if not (failure or index_get(index, element)) then
    index_set(index, element, deadline_by_rule(), before)
    dated = dated + 1
  end
end
if dated > 0 and not failure then
  index_was_set(db, prefix, data, index, schedule, now, before, now + rule_ttl)
end
return failure or { following, dated }
