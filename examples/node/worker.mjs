// A worker: takes tasks from a list, one at a time. Start as many as you like, where you like.
// `LPUSH tasks mail:1` gives them a task. The name of a task must be its own.
import { setTimeout as sleep } from "node:timers/promises";
import Redis from "ioredis";

const [TASKS, BUSY, RESULTS] = ["tasks", "tasks:busy", "tasks:results"];
const [LEASE_S, RENEW_S, RETRY_S, DAY_S] = [10, 1, 1, 86400];
const redis = new Redis(process.env.REDIS_URL ?? "redis://127.0.0.1:6380");
redis.on("error", (error) => console.log(error.message));

// Yours. It may take as long as it likes, and throws if it fails.
async function work(task) {
  if (!task.startsWith("mail:")) throw new Error("no such task");
  await sleep(2000);
  return "sent";
}

// A task whose lease ends goes back to the list, the fourth time to the dead letters.
const setUp = () => redis.call("ONEXPIRE", BUSY, "RPUSH", TASKS, "MAX", 3, "ELSE", "tasks:dead");

// The next task; null if there was none for two seconds.
const lease = () => redis.call("LEASE", TASKS, BUSY, "EX", LEASE_S, "BLOCK", 2000);

// 1, or -2: the lease has ended, so another worker has the task, or will have it.
const renew = (task, seconds = LEASE_S) => redis.call("SEXPIREMEMBER", BUSY, task, seconds);

async function renewing(task, working) {
  const timer = setInterval(() => renew(task).catch(() => {}), RENEW_S * 1000);
  try {
    return await working;
  } finally {
    clearInterval(timer);
  }
}

// The fence: if several workers had the task, the first result counts. True: it is this one.
async function finish(task, result) {
  const first = await redis.call("HSETEX", RESULTS, "FNX", "EX", DAY_S, "FIELDS", 1, task, result);
  await redis.srem(BUSY, task);
  return first === 1;
}

async function run(task) {
  let result;
  try {
    result = (await redis.hget(RESULTS, task)) ?? (await renewing(task, work(task)));
  } catch (error) {
    await renew(task, RETRY_S); // it goes back to the list then
    console.log(`${task} failed: ${error.message}`);
    return;
  }
  console.log((await finish(task, result)) ? `${task} is done` : `${task} was done`);
}

let stop = false;
for (const name of ["SIGTERM", "SIGINT"]) process.on(name, () => (stop = true));
await setUp();
while (!stop) {
  try {
    const task = await lease();
    if (task !== null) await run(task);
  } catch (error) {
    console.log(error.message); // the lease of a task ends by itself
    await sleep(1000);
  }
}
redis.disconnect();
