-- ZINCRBY, ZADD INCR in a key with a rule of ONWRITE: a new member gets the deadline of the rule; a member that
-- exists keeps its own, except with REFRESH.
-- KEYS: data index schedule
-- ARGV: origin how what argument...
-- RESULT: the reply of the command, in the client's RESP version
-- include keeps_all
local old = keeps_all and redis.pcall('ZSCORE', data, ARGV[#ARGV])
if what == 'ZINCRBY' and type(old) == 'string' and type(redis.pcall('ZCARD', index)) == 'number' then
  redis.setresp(3)
  local score = redis.pcall(what, data, unpack(ARGV, first_argument))
  if not score.err then
    return score
  end
  redis.setresp(2)
end
-- include rule
-- include deadline
-- include zset
-- include maxlen
-- include rule_date
how = what
-- include options
-- Redis checks the number before the type: for a key of another type, the error is that of the command.
local seen = has('')
if type(seen) == 'table' then
  if string.find(seen.err, 'WRONGTYPE', 1, true) then
    try(called(data, first_argument, #ARGV))
  end
  return failure or seen
end
local member = ARGV[#ARGV]
local there = has(member)
if there == 0 and not options.XX and not has_room({ member }, 1) then
  return too_many()
end
rule_guard()
redis.setresp(3)
local reply = try(called(data, first_argument, #ARGV))
redis.setresp(2)
local is_written = reply ~= nil and reply ~= false or dry_run
if not failure and is_written and (there == 0 or not keeps) then
  rule_date(member)
end
return failure or reply
