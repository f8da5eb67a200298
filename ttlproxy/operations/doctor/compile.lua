-- Returns why a script does not compile; nil if it does. The script is neither run nor stored.
-- ARGV: its text, whose first line may be one of flags (#!...), which is no Lua
local compiled, why = loadstring((string.gsub(ARGV[1], '^#![^\n]*', '')))
return why
