// Ordinary use of a proxy in front of several masters, while slots move:
// node masters.mjs CLIENT PORT ends with 0 if all replies are right. tests/cluster/test_real_clients.py
// says which steps all clients take.
import assert from "node:assert/strict";
import { Queue, Worker } from "bullmq";
import Redis from "ioredis";
import { createClient, createCluster } from "redis";

const [client, port] = [process.argv[2], Number(process.argv[3])];
const here = { host: "127.0.0.1", port };
const KEYS = Array.from({ length: 30 }, (_, number) => `k:${number}`);

async function countWhileSlotsMove(call) {
  let own = 0;
  while (!Number(await call("EXISTS", "{moves}stop"))) {
    await call("INCR", "{moves}n");
    assert.equal(Number(await call("HSETEX", "{moves}h", "EX", 100, "FIELDS", 1, "f", ++own)), 1);
  }
  assert.equal(Number(await call("GET", "{moves}n")), own);
}

async function useIoredis(redis) {
  const call = (...words) => redis.call(...words);
  for (const key of KEYS) assert.equal(await redis.set(key, key), "OK");
  assert.deepEqual(await Promise.all(KEYS.map((key) => redis.get(key))), KEYS);
  assert.equal(await redis.call("HSETEX", "h", "EX", 100, "FIELDS", 1, "f", "v"), 1);
  assert.equal(await redis.call("HTTLFIELD", "h", "f"), 100);

  const pipeline = redis.pipeline();
  for (const key of ["{p}a", "{p}b"]) pipeline.set(key, 1).call("HTTLFIELD", "{p}none", "f");
  assert.deepEqual((await pipeline.exec()).map(([error]) => error), [null, null, null, null]);

  await redis.watch("{t}n");
  const transaction = redis.multi().incr("{t}n").call("HSETEX", "{t}h", "EX", 9, "FIELDS", 1, "f", 1);
  assert.deepEqual(await transaction.exec(), [[null, 1], [null, 1]]);

  const other = redis.duplicate();
  const message = new Promise((resolve) => other.once("message", (...args) => resolve(args)));
  await other.subscribe("c");
  await redis.publish("c", "hello");
  assert.deepEqual(await message, ["c", "hello"]);

  const waiting = redis.duplicate();
  const popped = waiting.blpop("l", 30);
  await redis.rpush("l", "x");
  assert.deepEqual(await popped, ["l", "x"]);
  await countWhileSlotsMove(call);
}

async function useNodeRedis(redis, call) {
  for (const key of KEYS) assert.equal(await redis.set(key, key), "OK");
  assert.deepEqual(await Promise.all(KEYS.map((key) => redis.get(key))), KEYS);
  assert.equal(await call("HSETEX", "h", "EX", 100, "FIELDS", 1, "f", "v"), 1);
  assert.equal(await call("HTTLFIELD", "h", "f"), 100);
  assert.deepEqual(await redis.multi().incr("{t}n").incr("{t}n").exec(), [1, 2]);

  const other = await redis.duplicate().connect();
  const message = new Promise((resolve) => other.subscribe("c", (text) => resolve(text)));
  while (!Number(await redis.publish("c", "hello"))) await new Promise((ready) => setImmediate(ready));
  assert.equal(await message, "hello");

  const waiting = await redis.duplicate().connect();
  const popped = waiting.blPop("l", 30);
  await redis.rPush("l", "x");
  assert.deepEqual({ ...(await popped) }, { key: "l", element: "x" });
  await countWhileSlotsMove(call);
}

async function watchWithNodeRedis(redis) {
  await redis.watch("{w}n");
  await redis.duplicate().connect().then((other) => other.set("{w}n", 1));
  await assert.rejects(redis.multi().incr("{w}n").exec(), /watch/i);
}

async function useBullmq(connect) {
  const prefix = "{bull}";
  const queue = new Queue("tasks", { connection: connect(), prefix });
  const done = new Set();
  const all = new Promise((resolve) => {
    new Worker("tasks", async (job) => done.add(job.data) && done.size === 20 && resolve(), {
      connection: connect(),
      prefix,
    });
  });
  for (let job = 0; job < 20; job++) await queue.add("t", job, { delay: job % 2 ? 200 : 0 });
  await all;
  const redis = connect();
  await countWhileSlotsMove((...words) => redis.call(...words));
}

const words = (all) => all.map(String);
const clients = {
  "ioredis": () => useIoredis(new Redis(here)),
  "ioredis Cluster": () => useIoredis(new Redis.Cluster([here])),
  async "node-redis"() {
    const redis = await createClient({ socket: here }).connect();
    await watchWithNodeRedis(redis);
    await useNodeRedis(redis, (...all) => redis.sendCommand(words(all)));
  },
  async "node-redis Cluster"() {
    const redis = await createCluster({ rootNodes: [{ socket: here }] }).connect();
    await useNodeRedis(redis, (...all) => redis.sendCommand(all[1], false, words(all)));
  },
  "BullMQ": () => useBullmq(() => new Redis({ ...here, maxRetriesPerRequest: null })),
  "BullMQ Cluster": () =>
    useBullmq(() => new Redis.Cluster([here], { redisOptions: { maxRetriesPerRequest: null } })),
};

await clients[client]();
process.exit(0);
