// How late delayed tasks are delivered in each way, all with the same client:
// node delayed.mjs defer|poll|bullmq PORT TASKS PER_SECOND prints the lags in ms as a JSON array.
import Redis from "ioredis";
import { Queue, Worker } from "bullmq";

const [way, port, tasks, perSecond] = process.argv
  .slice(2)
  .map((word, place) => (place ? Number(word) : word));
const AT_A_TIME = 200;
// The longest time that the writes take, so that no task is due before all are written.
const LEAD_MS = 1000 + tasks;
const POLL_MS = 1000;

const where = { host: "127.0.0.1", port, maxRetriesPerRequest: null };
const now = () => performance.timeOrigin + performance.now();
const first = Math.ceil(now()) + LEAD_MS;
const dueOf = (task) => first + Math.floor((task * 1000) / perSecond);

async function inPortions(write) {
  for (let from = 0; from < tasks; from += AT_A_TIME) {
    const until = Math.min(from + AT_A_TIME, tasks);
    await write(Array.from({ length: until - from }, (_, number) => from + number));
  }
}

const lags = [];
let delivered;
const all = new Promise((resolve) => (delivered = resolve));
function taken(due) {
  lags.push(now() - due);
  if (lags.length === tasks) delivered();
}

const ways = {
  async defer() {
    const producer = new Redis(where);
    await inPortions(async (some) => {
      const pipeline = producer.pipeline();
      for (const task of some) {
        pipeline.call("DEFER", "PXAT", dueOf(task), "LPUSH", "tasks", dueOf(task));
      }
      for (const [error] of await pipeline.exec()) if (error) throw error;
    });
    const worker = new Redis(where);
    while (lags.length < tasks) taken(Number((await worker.brpop("tasks", 0))[1]));
  },

  async poll() {
    const redis = new Redis(where);
    await inPortions((some) =>
      redis.zadd("tasks", ...some.flatMap((task) => [dueOf(task), `${dueOf(task)}:${task}`])),
    );
    const timer = setInterval(async () => {
      const due = await redis.zrangebyscore("tasks", "-inf", now());
      for (const task of due) if (await redis.zrem("tasks", task)) taken(parseInt(task));
    }, POLL_MS);
    await all;
    clearInterval(timer);
  },

  async bullmq() {
    const queue = new Queue("tasks", {
      connection: new Redis(where),
      defaultJobOptions: { removeOnComplete: true },
    });
    await inPortions((some) =>
      queue.addBulk(
        some.map((task) => ({ name: "t", data: {}, opts: { delay: dueOf(task) - Date.now() } })),
      ),
    );
    const takes = async (job) => taken(job.timestamp + job.opts.delay);
    new Worker("tasks", takes, { connection: new Redis(where), concurrency: 50 });
    await all;
  },
};

await ways[way]();
// A pipe takes 64 KiB at once: an exit before the rest is written would lose it.
process.stdout.write(JSON.stringify(lags), () => process.exit(0));
