-- Does nothing. While a server delays writes of clients, it delays this script too.
-- KEYS:
-- ARGV:
-- RESULT: 1
return 1
