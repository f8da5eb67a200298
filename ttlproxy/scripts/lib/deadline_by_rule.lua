-- The deadlines by a rule of ONWRITE. `rule_words` is a rule as in rule.lua, or one for each database; '' if there is
-- none.
-- NEEDS: clock.lua index.lua db rule_words
-- GIVES: rule_ttl deadline_by_rule
if string.find(rule_words, '=', 1, true) then
  rule_words = string.match(';' .. rule_words, ';' .. (actual_db(db) or '') .. '=([^;]*)') or ''
end
local rule_ttl, rule_jitter = string.match(rule_words, '%+(%d+)[^#]*#?(%d*)$')
if rule_jitter and rule_jitter ~= '' then
  math.randomseed(tonumber(time[2]))
end

-- Returns a deadline for one element; nil without a rule.
local function deadline_by_rule()
  if not rule_ttl then
    return nil
  end
  local most = rule_ttl * (tonumber(rule_jitter) or 0) / 100
  return now + rule_ttl + (most > 0 and math.floor(math.random() * most) or 0)
end
