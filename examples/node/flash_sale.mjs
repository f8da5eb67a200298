// A flash sale: a hash has as many fields as there are items. An unpaid field expires.
import Redis from "ioredis";

const redis = new Redis(process.env.REDIS_URL ?? "redis://127.0.0.1:6380");

// 1: reserved, 0: the buyer has one, -1: sold out, for now.
function reserve(sale, buyer, items = 3, ttlMs = 900_000) {
  const words = ["FNX", "MAXLEN", items, "PX", ttlMs, "FIELDS", 1, buyer, ""];
  return redis.call("HSETEX", sale, ...words);
}

// Before the money is taken. 1: sold, -1: sold before, -2: too late.
const pay = (sale, buyer) => redis.call("HPERSISTFIELD", sale, buyer);

const giveBack = async (sale, buyer) => (await redis.hdel(sale, buyer)) === 1;

const sale = "sale:7";
const buyers = ["ann", "bob", "bob", "cy", "dan"];
console.log(await Promise.all(buyers.map((buyer) => reserve(sale, buyer)))); // [ 1, 1, 0, 1, -1 ]
console.log(await pay(sale, "ann"), await pay(sale, "ann"), await pay(sale, "dan")); // 1 -1 -2
console.log(await giveBack(sale, "bob"), await reserve(sale, "dan")); // true 1
await redis.call("HEXPIREFIELD", sale, "dan", 0); // his time is over
console.log(await pay(sale, "dan"), await reserve(sale, "eve")); // -2 1
console.log((await redis.hkeys(sale)).sort()); // [ 'ann', 'cy', 'eve' ]
redis.disconnect();
