-- Announces a name to all proxies: they track the keys that begin like it (link/connecting/pushes.py).
-- KEYS: data
-- ARGV:
-- All is in one step, so that no client can see the key. After the first write a full server refuses no other.
-- RESULT: 1
redis.call('DEL', data)
redis.call('SET', data, '', 'PX', 1000)
return redis.call('DEL', data)
