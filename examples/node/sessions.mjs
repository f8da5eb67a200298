// All sessions of a user in one hash. Each ends half an hour after its last use.
import { randomUUID } from "node:crypto";
import Redis from "ioredis";

const redis = new Redis(process.env.REDIS_URL ?? "redis://127.0.0.1:6380");
const SECONDS = 1800;

// Returns the token. A user has five sessions: a sixth ends the one that would end first.
async function logIn(user, content) {
  const token = randomUUID();
  const words = ["MAXLEN", 5, "EVICT", "EX", SECONDS, "FIELDS", 1, token, JSON.stringify(content)];
  await redis.call("HSETEX", `sessions:${user}`, ...words);
  return token;
}

// The content of the session, which gets its full time again; null if it has ended.
async function use(user, token) {
  const words = ["EX", SECONDS, "FIELDS", 1, token];
  const [found] = await redis.call("HGETEX", `sessions:${user}`, ...words);
  return JSON.parse(found);
}

const logOut = (user, ...tokens) => redis.hdel(`sessions:${user}`, ...tokens);
const logOutEverywhere = (user) => redis.del(`sessions:${user}`);

const phone = await logIn(42, { device: "phone" });
const tablet = await logIn(42, { device: "tablet" });
console.log(await use(42, phone)); // { device: 'phone' }
console.log((await redis.call("HTTLFIELD", "sessions:42", phone)) > 1700); // true
console.log(await logOut(42, tablet), await use(42, tablet)); // 1 null
for (let n = 0; n < 5; n++) await logIn(42, { device: "another" });
console.log(await redis.hlen("sessions:42"), await use(42, phone)); // 5 null
await logOutEverywhere(42);
console.log(await redis.exists("sessions:42")); // 0
redis.disconnect();
