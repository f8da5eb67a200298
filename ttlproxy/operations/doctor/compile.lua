-- Why a script does not compile; nil if it does. It is neither run nor kept.
-- ARGV: its text, whose first line may be one of flags (#!...), which is no Lua
local compiled, why = loadstring((string.gsub(ARGV[1], '^#![^\n]*', '')))
return why
