-- What all proxies before a server share: the first that writes it down wins. Only the link may reach it.
-- KEYS: state old_layout others
-- ARGV: secret layout
-- The secret is '' where proxies have it from a file; the layout is '' until content of an older one is
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
  -- Removes nothing, but a full server lets a script write that has written.
  try('DEL', prefix .. 'none:')
end
if wants_secret then
  try('HSET', state, 'secret', secret)
  found[1] = secret
end
if wants_layout then
  try('HSET', state, 'layout', layout)
  -- Proxies that know nothing of this hash read it there, and do not start.
  try('SET', old_layout, layout)
  found[2] = layout
end
if wants_secret or wants_layout then
  others_add(state)
  others_add(old_layout)
end
return failure or { found[1] or '', found[2] or '' }
