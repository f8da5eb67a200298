-- Exact decimal numbers of any length: numbers of Lua are exact only up to 2^53. A number is a list of limbs of seven
-- digits, the lowest first, with 21 digits after the point; only the last limb may be negative.
-- GIVES: decimal plus is_less shown
local LIMB, FRACTION = 10000000, 21

local function carried(limbs)
  for i = 1, #limbs - 1 do
    local carry = math.floor(limbs[i] / LIMB)
    limbs[i] = limbs[i] - carry * LIMB
    limbs[i + 1] = limbs[i + 1] + carry
  end
  return limbs
end

-- Reads a number; returns nil if Redis would not write a number like that.
local function decimal(text)
  local sign, whole, fraction = string.match(text, '^(%-?)(%d+)%.?(%d*)$')
  if not whole or #fraction > FRACTION then
    return nil
  end
  local digits = whole .. fraction .. string.rep('0', FRACTION - #fraction)
  local limbs, factor = {}, sign == '-' and -1 or 1
  for last = #digits, 1, -7 do
    limbs[#limbs + 1] = factor * tonumber(string.sub(digits, math.max(last - 6, 1), last))
  end
  return carried(limbs)
end

-- one + factor * other
local function plus(one, other, factor)
  local limbs = {}
  for i = 1, math.max(#one, #other) do
    limbs[i] = (one[i] or 0) + factor * (other[i] or 0)
  end
  return carried(limbs)
end

local function is_negative(number)
  return number[#number] < 0
end

local function is_less(one, other)
  return is_negative(plus(one, other, -1))
end

-- Returns the number as Redis writes it.
local function shown(number)
  if is_negative(number) then
    return '-' .. shown(plus({ 0 }, number, -1))
  end
  local digits = {}
  for i = #number, 1, -1 do
    digits[#digits + 1] = string.format('%07d', number[i])
  end
  local text = table.concat(digits)
  local whole = string.gsub(string.sub(text, 1, -FRACTION - 1), '^0+(%d)', '%1')
  return (string.gsub(whole .. '.' .. string.sub(text, -FRACTION), '%.?0*$', ''))
end
