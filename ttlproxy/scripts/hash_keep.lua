-- HSETNX, HINCRBYFLOAT: a field that exists keeps its deadline, a new one has none.
-- KEYS: data index schedule
-- ARGV: command field value
-- RESULT: the reply of the command
local first_word, named, step, finder = 2, 2, 2, 'HEXISTS'
-- include fast_write
-- include hash
-- include keep
keep({ field }, 1)
return try(command, data, field, value)
