-- Announces to the other proxies that this one walks over the data for all (link/reaper/walks.py).
-- KEYS: data
-- ARGV:
-- Both commands are in one step, so that no client can see the key.
-- RESULT: 1
redis.call('SET', data, '', 'PX', 1000)
return redis.call('DEL', data)
