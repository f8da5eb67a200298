-- The rules as they are stored in Redis, and as ONEXPIRE and ONWRITE show them.
-- NEEDS: netstrings.lua rules
-- GIVES: words_of_rule is_wrong_type rules_listed is_of_write
local function place_of(name)
  return prefix .. const.RULE .. home_tag .. name
end

local function is_of_write(name)
  return string.sub(name, 1, #const.WRITE_RULE) == const.WRITE_RULE
end

-- Returns the words that are shown; Redis's reply if there is no such rule, or if it may not be read.
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

-- acl_check_cmd, if the server has it, because Redis would log each refused GET.
local function may_read(name)
  return not redis.acl_check_cmd or redis.acl_check_cmd('GET', place_of(name))
end

-- Returns `rule_of(name)` for each name that fulfils `is_ours(name)` and that the client may read: the longest pattern
-- first, then in the order of bytes, a rule for one type before a rule for all. Returns Redis's error if it refuses to
-- list them.
local function rules_listed(is_ours, rule_of)
  local fields = redis.pcall('HKEYS', rules)
  if fields.err then
    return is_wrong_type(fields) and {} or fields
  end
  local found = {}
  for _, field in ipairs(fields) do
    local name = string.sub(field, 2)
    local rule = field ~= const.VERSION and is_ours(name) and may_read(name) and rule_of(name)
    if rule and not rule.err and rule[1] then
      found[#found + 1] = rule
    end
  end
  table.sort(found, function(one, other)
    if #one[1] ~= #other[1] then
      return #one[1] > #other[1]
    elseif one[1] ~= other[1] then
      return one[1] < other[1]
    end
    return one[2] .. (one[3] or '') > other[2] .. (other[3] or '')
  end)
  return found
end
