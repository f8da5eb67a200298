-- For each type, a function that looks for an element; it returns nil, false or 0 if the element does not exist.
-- NEEDS: data
-- GIVES: finders
local function by(command)
  return function(element)
    return redis.call(command, data, element)
  end
end

-- include list
local finders = { hash = by('HEXISTS'), set = by('SISMEMBER'), zset = by('ZSCORE'), list = has }
