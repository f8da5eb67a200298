// ioredis, node-redis or BullMQ for tests/faults/test_client_retries.py: retries.mjs <client> <usual or safe> <port>
// Sends each line of its input over a client of its own, and prints the reply, or `error`.
import readline from "node:readline";
import { Queue } from "bullmq";
import Redis from "ioredis";
import { createClient } from "redis";

const [client, settings, port] = process.argv.slice(2);
const options = { port, ...(settings === "safe" && { maxRetriesPerRequest: 0 }) };

async function ioredis(words) {
  const redis = new Redis(options);
  redis.on("error", () => {});
  try {
    if (words[0] !== "MULTI") return await redis.call(...words);
    const [[, reply]] = await redis.multi().call(...words.slice(1)).exec();
    return reply;
  } finally {
    redis.disconnect();
  }
}

async function nodeRedis(words) {
  const redis = createClient({ url: `redis://127.0.0.1:${port}` }).on("error", () => {});
  await redis.connect();
  try {
    return await redis.sendCommand(words);
  } finally {
    redis.destroy();
  }
}

// Adds a job, with the id that the line names.
async function bullmq([name, jobId]) {
  const queue = new Queue(name, { connection: options });
  queue.on("error", () => {});
  const added = await queue.add("job", {}, { jobId });
  await queue.close();
  return added.id;
}

const send = { ioredis, "node-redis": nodeRedis, BullMQ: bullmq }[client];
for await (const line of readline.createInterface({ input: process.stdin })) {
  console.log(String(await send(line.split(" ")).catch(() => "error")));
}
