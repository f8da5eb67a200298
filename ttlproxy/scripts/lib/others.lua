-- The set of internal keys that are neither indexes nor shared, for DBSIZE to leave out. Clients may write
-- there, and may have made anything of it: an error is of no consequence.
local function others_add(name)
  redis.pcall('SADD', prefix .. 'others', name)
end

local function others_gone(name)
  if redis.call('EXISTS', name) == 0 then
    redis.pcall('SREM', prefix .. 'others', name)
  end
end
