// Ordinary use of a proxy by ioredis: node ordinary.mjs PORT; ends with 0 if all replies are right.
import assert from "node:assert/strict";
import Redis from "ioredis";

const port = Number(process.argv[2]);
const redis = new Redis({ host: "127.0.0.1", port });
const other = new Redis({ host: "127.0.0.1", port });

assert.equal(await redis.set("k", "v", "EX", 100), "OK");
assert.equal(await redis.get("k"), "v");
assert.equal(await redis.hset("h", { a: 1, b: 2 }), 2);

assert.equal(await redis.call("HEXPIREFIELD", "h", "a", 100), 1);
assert.equal(await redis.call("httlfield", "h", "a"), 100);
assert.deepEqual(await redis.call("HTTLFIELD", "h", "FIELDS", 3, "a", "b", "c"), [100, -1, -2]);
assert.equal(await redis.call("SADDEX", "s", 10, "x", "y"), 2);
assert.equal(await redis.call("STTLMEMBER", "s", "x"), 10);
assert.equal(await redis.call("HSETEX", "h", "EX", 10, "FIELDS", 1, "f", "v"), 1);

assert.deepEqual(await redis.pipeline().hset("h", "a", 3).call("HTTLFIELD", "h", "a").exec(), [
  [null, 0],
  [null, -1],
]);
assert.deepEqual(
  await redis.multi().incr("n").call("HEXPIREFIELD", "h", "a", 50).hget("h", "a").exec(),
  [[null, 1], [null, 1], [null, "3"]],
);
await assert.rejects(redis.call("HEXPIREFIELD", "k", "a", 1), /^ReplyError: WRONGTYPE/);

redis.defineCommand("twice", { numberOfKeys: 1, lua: "return redis.call('GET', KEYS[1]) .. ARGV[1]" });
assert.equal(await redis.twice("k", "w"), "vw");

const message = new Promise((resolve) => other.once("message", (...args) => resolve(args)));
await other.subscribe("c");
assert.equal(await redis.publish("c", "hello"), 1);
assert.deepEqual(await message, ["c", "hello"]);

const popped = redis.duplicate().blpop("l", 5);
await redis.rpush("l", "x");
assert.deepEqual(await popped, ["l", "x"]);

assert.equal(await redis.quit(), "OK");
process.exit(0);
