// ioredis or node-redis for tests/faults/test_client_retries.py: retries.mjs <client> <usual or safe> <port>
// Sends each line of its input over a client of its own, and prints the reply, or `error`.
import readline from "node:readline";
import Redis from "ioredis";
import { createClient } from "redis";

const [client, settings, port] = process.argv.slice(2);

async function ioredis(words) {
  const redis = new Redis({ port, ...(settings === "safe" && { maxRetriesPerRequest: 0 }) });
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

const send = { ioredis, "node-redis": nodeRedis }[client];
for await (const line of readline.createInterface({ input: process.stdin })) {
  console.log(String(await send(line.split(" ")).catch(() => "error")));
}
