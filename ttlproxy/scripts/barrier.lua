-- Does nothing. A server that holds back the writes of its clients holds this back as well.
-- KEYS:
-- ARGV:
-- RESULT: 1
return 1
