-- The server may also have deadlines of hash fields; the earlier one is the field's deadline.
-- NEEDS: index.lua data
-- GIVES: native_deadline
local function native_deadline(field)
  local at = field_ttls and redis.pcall('HPEXPIRETIME', data, 'FIELDS', 1, field)
  return at and not at.err and at[1] > 0 and at[1] or nil
end

if field_ttls then
  local our_get = index_get

  function index_get(index, field)
    local ours, native = our_get(index, field), native_deadline(field)
    return ours and native and math.min(ours, native) or ours or native
  end
end
