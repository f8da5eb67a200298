-- Does nothing. A server that holds back the writes of clients holds this script back too.
-- KEYS:
-- ARGV:
-- RESULT: 1
return 1
