-- Our deadline of a hash field takes the place of the one that the server keeps.
-- NEEDS: try.lua index.lua data
-- include native_deadline
-- Setting or removing our deadline also removes the server's, which publishes the event for that.
if field_ttls then
  local our_set, our_persist = index_set, index_persist

  local function native_persist(field)
    return native_deadline(field) and try('HPERSIST', data, 'FIELDS', 1, field) and true
  end

  function index_set(index, field, deadline, before)
    our_set(index, field, deadline, before)
    native_persist(field)
  end

  function index_persist(index, field)
    local ours = our_persist(index, field)
    local natively = native_persist(field)
    return natively and 1 or ours, natively
  end
end
