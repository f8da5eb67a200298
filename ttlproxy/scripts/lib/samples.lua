-- Checks whether the client may access keys of any slot of a Cluster. A script may not access keys of other slots, but
-- Redis checks permissions before the slot.
-- NEEDS: netstrings.lua noperm.lua
-- GIVES: refused_sample

-- Returns Redis's error for the first key that the client may not access. `samples`: a row of netstrings.
local function refused_sample(samples)
  for _, sample in ipairs(words_from(1, samples)) do
    if redis.acl_check_cmd and not redis.acl_check_cmd('SET', sample, '', 'GET') then
      return noperm("The user executing the script can't access at least one of the keys")
    end
    local reply = redis.pcall('EXISTS', sample)
    local refusal = type(reply) == 'table' and noperm(reply.err)
    if refusal then
      return refusal
    end
  end
end
