-- Integers of 64 bits as texts: numbers of Lua are exact only up to 2^53.
-- GIVES: is_int64_sum
-- The greatest 64-bit integer in two parts, of which the second has nine digits.
local HIGHEST, LAST = 9223372036, 854775807

-- Returns the sign, and both parts; nil if Redis would not read the text as an integer.
local function int64(text)
  local sign, digits = string.match(text, '^(%-?)([1-9]%d*)$')
  if text == '0' then
    sign, digits = '', '0'
  end
  if digits and #digits <= 19 then
    return sign, tonumber(string.sub(digits, 1, -10)) or 0, tonumber(string.sub(digits, -9))
  end
end

local function fits(sign, high, low)
  high, low = high + math.floor(low / 10 ^ 9), low % 10 ^ 9
  return high < HIGHEST or high == HIGHEST and low <= LAST + (sign == '-' and 1 or 0)
end

-- Returns whether both are 64-bit integers, and their sum is one.
local function is_int64_sum(one, other)
  local sign, high, low = int64(one)
  local sign_too, high_too, low_too = int64(other)
  if not (sign and sign_too and fits(sign, high, low) and fits(sign_too, high_too, low_too)) then
    return false
  end
  return sign ~= sign_too or fits(sign, high + high_too, low + low_too)
end
