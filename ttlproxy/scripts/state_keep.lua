-- Writes the state that all proxies of a server share: the first proxy wins. Only the link may reach it.
-- KEYS: state old_layout others
-- ARGV: secret layout
-- The secret is '' if proxies have it from a file; the layout is '' until an older layout is
-- converted.
-- RESULT: [secret, layout], each '' where there is none
-- include try
-- include others
local found = redis.pcall('HMGET', state, 'secret', 'layout')
if found.err then
  return found
end
local wants_secret = not found[1] and secret ~= ''
local wants_layout = not found[2] and layout ~= ''
if wants_secret or wants_layout then
  -- Removes nothing; after this first write, a full server refuses the script nothing.
  try('DEL', prefix .. const.NONE .. slot_tag)
end
if wants_secret then
  try('HSET', state, 'secret', secret)
  found[1] = secret
end
if wants_layout then
  try('HSET', state, 'layout', layout)
  -- Old proxies do not know this hash; they read the layout there, and do not start.
  try('SET', old_layout, layout)
  found[2] = layout
end
if wants_secret or wants_layout then
  others_add(state)
  others_add(old_layout)
end
return failure or { found[1] or '', found[2] or '' }
