-- RENAME, RENAMENX: renames the index too; the index of the old target is deleted.
-- KEYS: data target index target_index schedule
-- ARGV: db command
-- RESULT: the reply of the command
-- include index
local function there(key)
  return redis.call('EXISTS', key) == 1
end

if data ~= target and there(data) and not (command == 'RENAMENX' and there(target)) then
  index_move(db, prefix, data, index, target, target_index, schedule)
end
return try(command, data, target)
