-- The rules at their home, as ONEXPIRE and ONWRITE show them.
-- GIVES: words_of_rule is_wrong_type may_read
-- include netstrings
local function place_of(name)
  return prefix .. const.RULE .. home_tag .. name
end

-- The words that are shown; what Redis has said if there is no such rule, or it may not be read.
local function words_of_rule(name)
  local signed = redis.pcall('GET', place_of(name))
  if type(signed) ~= 'string' then
    return signed
  end
  return words_from(4, string.sub(signed, const.SIGNATURE_LENGTH + 1))
end

local function is_wrong_type(reply)
  return type(reply) == 'table' and reply.err and string.find(reply.err, 'WRONGTYPE', 1, true)
end

-- Asks Redis if it can be asked, because each refusal would be logged.
local function may_read(name)
  return not redis.acl_check_cmd or redis.acl_check_cmd('GET', place_of(name))
end
