// Three limits: a steady rate with bursts, so many in a second, so many at a time.
import Redis from "ioredis";

const redis = new Redis(process.env.REDIS_URL ?? "redis://127.0.0.1:6380");

// 0: go on; else in how many seconds to try again. `burst`: so many at once, after a rest.
// CL.THROTTLE takes the number beyond the first: with 15 it allows 16.
async function waitS(key, burst, count, periodS) {
  const [limited, , , retryS] = await redis.call("CL.THROTTLE", key, burst - 1, count, periodS);
  return limited ? retryS : 0;
}

// Whether it is one of the first `most` of a period, which begins with its first.
async function allowed(key, most, periodS) {
  const words = ["BYINT", 1, "UBOUND", most, "EX", periodS, "ENX"];
  const [, added] = await redis.call("INCREX", key, ...words);
  return added === 1;
}

// True: `name` may work, until it calls `end` or `ttlS` are over. False: `most` others do.
async function begin(key, name, most, ttlS) {
  const words = ["MAXLEN", most, "EX", ttlS, "MEMBERS", 1, name];
  return (await redis.call("SADDEX", key, ...words)) !== -1;
}

// False: it took longer than its time, so there may have been too many.
const end = async (key, name) => (await redis.srem(key, name)) === 1;

const waits = await Promise.all(Array.from({ length: 16 }, () => waitS("pay:ann", 15, 30, 3600)));
console.log(waits.filter((seconds) => seconds === 0).length, waits[15] <= 120); // 15 true
const logins = await Promise.all([1, 2, 3, 4].map(() => allowed("login", 3, 60)));
console.log(logins); // [ true, true, true, false ]
const exports = await Promise.all(["a", "b", "c"].map((name) => begin("export", name, 2, 60)));
console.log(exports); // [ true, true, false ]
console.log(await end("export", "a"), await end("export", "a")); // true false
console.log(await begin("export", "c", 2, 60)); // true
redis.disconnect();
