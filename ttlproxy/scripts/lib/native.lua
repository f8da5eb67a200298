-- Where hash fields may have deadlines that the server keeps itself, the earlier of the two counts,
-- and to set or to clear ours clears the server's.
local function native_deadline(field)
  local at = field_ttls and redis.pcall('HPEXPIRETIME', data, 'FIELDS', 1, field)
  return at and not at.err and at[1] > 0 and at[1] or nil
end

local function native_clear(field)
  if native_deadline(field) then
    try('HPERSIST', data, 'FIELDS', 1, field)
    return 1
  end
  return 0
end

if field_ttls then
  local our_get, our_set, our_clear = index_get, index_set, index_clear

  function index_get(index, field)
    local ours, native = our_get(index, field), native_deadline(field)
    return ours and native and math.min(ours, native) or ours or native
  end

  function index_set(index, field, deadline)
    our_set(index, field, deadline)
    native_clear(field)
  end

  function index_clear(index, field)
    local cleared = our_clear(index, field)
    return type(cleared) == 'number' and math.max(cleared, native_clear(field)) or cleared
  end
end
