-- For each type, a function that says whether an element is there: nil, false or 0 if it is not.
-- NEEDS: data
-- GIVES: finders
local function by(command)
  return function(element)
    return redis.call(command, data, element)
  end
end

-- include list
local finders = { hash = by('HEXISTS'), set = by('SISMEMBER'), zset = by('ZSCORE'), list = has }
