-- Integers of 64 bits, exact.
-- NEEDS: decimal.lua
-- GIVES: int64

-- Reads a number; returns nil if INCRBY would refuse it: with leading zeros, or beyond 64 bits.
local function int64(word)
  local found = decimal(word)
  if not found or shown(found) ~= word or string.find(word, '.', 1, true) then
    return nil
  end
  local fits = not is_less(found, decimal('-9223372036854775808'))
    and not is_less(decimal('9223372036854775807'), found)
  return fits and found or nil
end
