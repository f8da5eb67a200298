<?php
// Ordinary use of a proxy by Predis: php predis.php PORT prints its version if all replies are right.

require "Predis/autoload.php";

function same($found, $wanted) {
    if ($found !== $wanted) {
        throw new Exception(var_export($found, true) . " instead of " . var_export($wanted, true));
    }
}

$address = ["port" => (int) $argv[1]];
[$redis, $other] = [new Predis\Client($address), new Predis\Client($address)];
same((string) $redis->set("k", "v", "EX", 100), "OK");
same($redis->get("k"), "v");
same($redis->executeRaw(["HSETEX", "h", "EX", 100, "FIELDS", 1, "f", "v"]), 1);
same($redis->executeRaw(["HTTLFIELD", "h", "f"]), 100);
same($redis->pipeline()->hset("h", "f", 2)->incr("n")->execute(), [0, 1]);
same($redis->transaction()->incr("n")->hget("h", "f")->execute(), [2, "2"]);
same($redis->eval("return redis.call('GET', KEYS[1]) .. ARGV[1]", 1, "k", "w"), "vw");

$other->executeRaw(["DEFER", "PX", 1, "RPUSH", "l", "x"]); // the proxy pushes while it waits
same($redis->blpop("l", 30), ["l", "x"]);
echo Predis\Client::VERSION, "\n";
