// A cache with tags. An entry leaves its tags when it expires, so tags do not grow for ever.
import Redis from "ioredis";

const redis = new Redis(process.env.REDIS_URL ?? "redis://127.0.0.1:6380");

async function put(entry, value, ttlS, ...tags) {
  const together = redis.multi().set(`cache:${entry}`, value, "EX", ttlS);
  for (const tag of tags) together.call("SADDEX", `tag:${tag}`, ttlS, entry);
  await together.exec();
}

const get = (entry) => redis.get(`cache:${entry}`);

// The entries that have all these tags.
const withTags = (...tags) => redis.sinter(...tags.map((tag) => `tag:${tag}`));

// Deletes the entries with this tag, and says how many there were.
async function invalidate(tag) {
  const entries = await redis.smembers(`tag:${tag}`);
  if (entries.length === 0) return 0;
  const together = redis.multi().del(...entries.map((entry) => `cache:${entry}`));
  const [[, deleted]] = await together.srem(`tag:${tag}`, ...entries).exec();
  return deleted;
}

await put("1", "Ruby for all", 3600, "ruby");
await put("2", "Ruby on the web", 60, "ruby", "web");
console.log(await withTags("ruby", "web")); // [ '2' ]
console.log((await redis.call("STTLMEMBER", "tag:web", "2")) <= 60); // true
console.log(await invalidate("web"), await get("2"), await get("1")); // 1 null Ruby for all
console.log(await withTags("web")); // []
redis.disconnect();
