-- The set of internal keys that are neither indexes nor shared, so that DBSIZE does not count them. Clients may write
-- to it, so it may contain anything, and errors are ignored.
-- GIVES: others_add others_gone
local function others_add(name)
  if dry_run then
    return
  end
  redis.pcall('SADD', prefix .. const.OTHERS .. slot_tag, name)
end

local function others_gone(name)
  if redis.call('EXISTS', name) == 0 and not dry_run then
    redis.pcall('SREM', prefix .. const.OTHERS .. slot_tag, name)
  end
end
