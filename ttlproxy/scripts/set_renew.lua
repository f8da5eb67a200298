-- RENEW: sets a new deadline of a lease, if it still has the token.
-- KEYS: data index schedule
-- ARGV: origin how token element
-- RESULT: the new token, null if that lease has ended
-- include words
-- include set
-- include check_type
-- include deadline
-- include leased
-- include events
-- include deadlines_changed
if not is_leased(element) or has(element) == 0 then
  return false
end
index_set(index, element, at, before)
deadlines_changed(before, { element }, 0)
if not failure then
  notify(class, 'expire', db, data, { element })
end
return failure or at
