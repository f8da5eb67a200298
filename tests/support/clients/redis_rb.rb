# Ordinary use of a proxy by redis-rb: ruby redis_rb.rb PORT prints its version if all replies are right.
require "redis"

port = ARGV[0].to_i
redis = Redis.new(port: port)
other = Redis.new(port: port)

def same(found, wanted)
  raise "#{found.inspect} instead of #{wanted.inspect}" unless found == wanted
end

same(redis.set("k", "v", ex: 100), "OK")
same(redis.get("k"), "v")
same(redis.call("HSETEX", "h", "EX", 100, "FIELDS", 1, "f", "v"), 1)
same(redis.call("HTTLFIELD", "h", "f"), 100)
same(redis.pipelined { |all| all.hset("h", "f", 2); all.call("HTTLFIELD", "h", "f") }, [0, -1])
same(redis.multi { |all| all.incr("n"); all.call("SADDEX", "s", 10, "m") }, [1, 1])
changed = redis.watch("n") do
  other.set("n", 7)
  redis.multi { |all| all.incr("n") }
end
same(changed, nil)
same(redis.eval("return redis.call('GET', KEYS[1]) .. ARGV[1]", ["k"], ["w"]), "vw")

subscribed = Queue.new
heard = Queue.new
listening = Thread.new do
  Redis.new(port: port).subscribe("c") do |on|
    on.subscribe { subscribed << true }
    on.message { |channel, text| heard << [channel, text] }
  end
end
subscribed.pop
redis.publish("c", "hello")
same(heard.pop, ["c", "hello"])
listening.kill

popped = Thread.new { other.blpop("l", timeout: 30) }
redis.rpush("l", "x")
same(popped.value, ["l", "x"])
puts Redis::VERSION
