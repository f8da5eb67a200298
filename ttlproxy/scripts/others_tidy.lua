-- Repairs the set of others and the hash of rules, which clients may have changed, and removes counts that are too old.
-- KEYS: others rules
-- ARGV: name...
-- The names were found in the database, or in the set of others.
-- RESULT: OK
-- include clock
-- include counts
local RULE, COUNTS = prefix .. const.RULE .. home_tag, prefix .. const.COUNTS
local wanted = { [others] = 'set', [rules] = 'hash' }
for name, kind in pairs(wanted) do
  local there = redis.call('TYPE', name).ok
  if there ~= kind and there ~= 'none' then
    try('DEL', name)
  end
end

local function begins(name, with)
  return string.sub(name, 1, #with) == with
end

for _, name in ipairs(ARGV) do
  if begins(name, COUNTS) then
    counts_tidy(name, now)
  end
  if redis.call('EXISTS', name) == 0 then
    try('SREM', others, name)
  else
    try('SADD', others, name)
    if begins(name, RULE) then
      try('HSETNX', rules, ':' .. string.sub(name, #RULE + 1), '')
    end
  end
end
return failure or { ok = 'OK' }
