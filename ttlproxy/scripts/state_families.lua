-- Adds families whose keys have deadlines to the state of the proxies, if there is one.
-- KEYS: state
-- ARGV: whole family...
-- `whole` is 1 if the proxy knows all families of this server. Only then their number is stored, as that of all.
-- RESULT: how many families there are; -1 without a state, or if there may be others
-- include try
local fields = redis.pcall('HMGET', state, 'layout', 'families')
if fields.err then
  return fields
end
if not fields[1] then
  return -1
end
-- Removes nothing; after this first write, a full server refuses no command of the script.
try('DEL', prefix .. const.NONE .. slot_tag)
for i = first_family, #ARGV do
  try('HSET', state, const.FAMILY .. ARGV[i], '')
end
if failure or not (fields[2] or whole == '1') then
  return failure or -1
end
local count = 0
for _, field in ipairs(redis.call('HKEYS', state)) do
  if string.sub(field, 1, string.len(const.FAMILY)) == const.FAMILY then
    count = count + 1
  end
end
try('HSET', state, 'families', count)
return failure or count
