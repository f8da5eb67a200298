-- Does any script run?
return redis.call('TIME')
