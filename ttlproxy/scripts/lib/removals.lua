-- Elements whose deadline is already past are removed together, after all deadlines are written, and in
-- one call, for which Redis publishes one event.
-- NEEDS: try.lua remove
-- GIVES: departed depart remove_departures
local departed, departures = {}, {}

local function depart(element)
  if not departed[element] then
    departed[element] = true
    departures[#departures + 1] = element
  end
end

local function remove_departures()
  batches(1, #departures, function(from, to)
    if not failure then
      remove(unpack(departures, from, to))
    end
  end)
end
