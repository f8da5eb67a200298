-- The deadline of a hash field in the index replaces the one that the server has.
-- NEEDS: try.lua index.lua native_deadline.lua data

-- To set or to remove a deadline in the index also removes the one of the server, which publishes its event.
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
