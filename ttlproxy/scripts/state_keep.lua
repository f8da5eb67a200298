-- Writes the state that all proxies of a server share, if no other proxy has written it. Only the link may access it.
-- KEYS: state others
-- ARGV: secret layout program
-- The secret is '' if proxies have it from a file; `program` is the proxy's version.
-- RESULT: [secret, layout, program, families] of the state after that, '' for each that is missing; `families`: how
-- many families have keys with deadlines, see state_families.lua
-- include try
-- include others
local found = redis.pcall('HMGET', state, 'secret', 'layout', 'program', 'families')
if found.err then
  return found
end
local wants_secret = not found[1] and secret ~= ''
if not wants_secret and found[2] then
  return { found[1] or '', found[2], found[3] or '', found[4] or '' }
end
-- Removes nothing; after this first write, a full server refuses no command of the script.
try('DEL', prefix .. const.NONE .. slot_tag)
if wants_secret then
  try('HSET', state, 'secret', secret)
  found[1] = secret
end
if not found[2] then
  try('HSET', state, 'layout', layout, 'program', program)
  found[2], found[3] = layout, program
  -- An announcement: proxies with another layout stop.
  local name = prefix .. const.LAYOUT_TOLD .. layout .. slot_tag
  try('SET', name, '')
  try('DEL', name)
end
others_add(state)
return failure or { found[1] or '', found[2], found[3] or '', found[4] or '' }
