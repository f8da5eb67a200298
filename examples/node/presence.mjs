// Users seen within the last minute, with a message when one has left.
import { once } from "node:events";
import Redis from "ioredis";

const url = process.env.REDIS_URL ?? "redis://127.0.0.1:6380";
const redis = new Redis(url);

// Once: the rule is stored in Redis.
const setUp = () => redis.call("ONEXPIRE", "online", "PUBLISH", "presence:left");

// True if the user has just come.
async function seen(user, ttlMs = 60_000) {
  return (await redis.call("SADDEX", "online", "PX", ttlMs, "MEMBERS", 1, user)) === 1;
}

// A connection that emits "message", with the channel and the user, when one leaves from now on.
async function leaving() {
  const subscriber = new Redis(url);
  await subscriber.subscribe("presence:left");
  return subscriber;
}

await setUp();
const subscriber = await leaving();
const left = once(subscriber, "message");
console.log(await seen("ann"), await seen("ann"), await seen("bob", 50)); // true false true
console.log(await left); // [ 'presence:left', 'bob' ]
console.log(await redis.smembers("online")); // [ 'ann' ]
subscriber.disconnect();
redis.disconnect();
