<?php
// Ordinary use of a proxy by phpredis: php phpredis.php PORT prints its version if all replies are right.

function same($found, $wanted) {
    if ($found !== $wanted) {
        throw new Exception(var_export($found, true) . " instead of " . var_export($wanted, true));
    }
}

function connect() {
    global $argv;
    $redis = new Redis();
    $redis->connect("127.0.0.1", (int) $argv[1]);
    return $redis;
}

[$redis, $other] = [connect(), connect()];
same($redis->set("k", "v", ["EX" => 100]), true);
same($redis->get("k"), "v");
same($redis->rawCommand("HSETEX", "h", "EX", 100, "FIELDS", 1, "f", "v"), 1);
same($redis->rawCommand("HTTLFIELD", "h", "f"), 100);
same($redis->pipeline()->hSet("h", "f", 2)->rawCommand("HTTLFIELD", "h", "f")->exec(), [0, -1]);
same($redis->multi()->incr("n")->rawCommand("SADDEX", "s", 10, "m")->exec(), [1, 1]);
$redis->watch("n");
$other->set("n", 7);
same($redis->multi()->incr("n")->exec(), false);
same($redis->eval("return redis.call('GET', KEYS[1]) .. ARGV[1]", ["k", "w"], 1), "vw");

$other->rawCommand("DEFER", "PX", 1, "RPUSH", "l", "x"); // the proxy pushes while it waits
same($redis->blPop(["l"], 30), ["l", "x"]);
if (!pcntl_fork()) {
    for ($own = connect(); !$own->publish("c", "hello"); usleep(1000)); // until somebody listens
    exit(0);
}
$heard = null;
try {
    $redis->subscribe(["c"], function ($redis, $channel, $text) use (&$heard) {
        $heard = $text;
        $redis->close(); // ends the loop, which throws
    });
} catch (RedisException $closed) {
}
same($heard, "hello");
echo phpversion("redis"), "\n";
