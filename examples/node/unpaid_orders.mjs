// At most three unpaid orders a user, for half an hour each. Late ones go to a stream.
import Redis from "ioredis";

const LATE = "orders:late";
const url = process.env.REDIS_URL ?? "redis://127.0.0.1:6380";
const redis = new Redis(url, { maxRetriesPerRequest: 0 }); // else it may send a request twice

// Rule and consumer group are stored in Redis: once is enough, and more does no harm.
async function setUp() {
  await redis.call("ONEXPIRE", "unpaid:*", "XADD", LATE, "MAXLEN", "~", 1_000_000);
  try {
    await redis.xgroup("CREATE", LATE, "cancel", "0", "MKSTREAM");
  } catch (refused) {
    if (!refused.message.startsWith("BUSYGROUP")) throw refused; // it is there already
  }
}

// 1: placed, 0: there is an order of that name, -1: the user has three.
function place(user, order, content, ttlMs = 1_800_000) {
  const words = ["FNX", "MAXLEN", 3, "PX", ttlMs, "FIELDS", 1, order, JSON.stringify(content)];
  return redis.call("HSETEX", `unpaid:${user}`, ...words);
}

// False: it was too late, and the order is in the stream, or it was paid before.
const pay = async (user, order) => (await redis.hdel(`unpaid:${user}`, order)) === 1;

// Yields [user, order, content] for ever; first what this consumer had when it was killed.
// An order is acknowledged when the next one is asked for. It waits on a connection of its own.
async function* lateOrders(consumer) {
  const waiting = new Redis(url);
  try {
    for (let start = "0"; ; ) {
      const words = ["GROUP", "cancel", consumer, "BLOCK", 4000, "STREAMS", LATE, start];
      for (const [, entries] of (await waiting.xreadgroup(...words)) ?? []) {
        if (entries.length === 0) start = ">";
        for (const [entry, [, key, , , , order, , value]] of entries) {
          yield [key.slice("unpaid:".length), order, JSON.parse(value)];
          await redis.xack(LATE, "cancel", entry);
        }
      }
    }
  } finally {
    waiting.disconnect();
  }
}

await setUp();
const placed = [1, 2, 3, 4].map((n) => place(42, `order${n}`, { sku: n }));
console.log(await Promise.all(placed)); // [ 1, 1, 1, -1 ]
console.log(await pay(42, "order1"), await pay(42, "order1")); // true false
console.log(await place(42, "order4", { sku: 4 }, 50)); // 1
for await (const late of lateOrders("consumer-1")) {
  console.log(late); // [ '42', 'order4', { sku: 4 } ]
  break;
}
console.log(await pay(42, "order4")); // false
redis.disconnect();
