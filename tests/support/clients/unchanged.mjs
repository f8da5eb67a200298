// Libraries that know nothing of ttlproxy: node unchanged.mjs PORT. They write, say so, and for each
// line on their input print as JSON what they find.
import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { Queue, Worker } from "node-resque";
import redisSessions from "redis-sessions";

const require = createRequire(import.meta.url);
const TagCache = require("redis-tag-cache").default;
const Seen = require("seenreq");

const at = { host: "127.0.0.1", port: Number(process.argv[2]) };
const page = "http://example.org/";

const cache = new TagCache({ redis: at });
await cache.set("post:1", { title: "first" }, ["user:7"]);

const seen = new Seen({ repo: "redis", ...at, appName: "seen:crawler", clearOnQuit: false });
await seen.initialize();
await seen.exists(page);

const sessions = new redisSessions.default({ ...at, wipe: 0 });
const { token } = await sessions.create({ app: "web", id: "user7", ip: "127.0.0.1", ttl: 3600 });
await sessions.set({ app: "web", token, d: { cart: 3 } });

const connection = { ...at, pkg: "ioredis", namespace: "resque" };
const jobs = { boom: { perform: async () => { throw new Error("boom"); } } };
const queue = new Queue({ connection }, jobs);
await queue.connect();
const worker = new Worker({ connection, queues: ["mail"], timeout: 1 }, jobs);
await worker.connect();
worker.on("error", () => {});
let failed = 0;
const all = new Promise((done) => worker.on("failure", () => ++failed === 5 && done()));
for (let number = 0; number < 5; number++) await queue.enqueue("mail", "boom", [number]);
await worker.start();
await all;

console.log(JSON.stringify({ token }));
for await (const _ of createInterface({ input: process.stdin })) {
  const found = {
    session: await sessions.get({ app: "web", token }).catch((error) => error.message),
    active: (await sessions.activity({ app: "web", deltaTime: 600 })).activity,
    seen: await seen.exists(page),
    failures: (await queue.failed(0, -1)).map((failure) => failure.payload.args[0]),
    cached: await cache.get("post:1"),
  };
  console.log(JSON.stringify(found));
}
process.exit(0);
