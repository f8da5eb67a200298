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

// Of the next task; null if there was none for two seconds. The token is that of this lease: nobody
// else's is renewed or ended with it.
async function lease() {
  const leased = await redis.call("LEASE", TASKS, BUSY, "EX", LEASE_S, "BLOCK", 2000, "TOKEN");
  return leased && { task: leased[0], token: leased[1] };
}

// If the lease is over, another worker has the task, or will have it.
async function renew(leased, seconds = LEASE_S) {
  const token = await redis.call("RENEW", BUSY, leased.token, leased.task, "EX", seconds);
  leased.token = token ?? leased.token;
}

async function renewing(leased, working) {
  let renewal;
  const again = () => (renewal = renew(leased).catch(() => {}));
  const timer = setInterval(again, RENEW_S * 1000);
  try {
    return await working;
  } finally {
    clearInterval(timer);
    await renewal; // it changes the token
  }
}

// The fence: if several workers had the task, the first result counts. True: it is this one.
async function finish({ task, token }, result) {
  const first = await redis.call("HSETEX", RESULTS, "FNX", "EX", DAY_S, "FIELDS", 1, task, result);
  await redis.call("UNLEASE", BUSY, token, task);
  return first === 1;
}

async function run(leased) {
  const { task } = leased;
  let result;
  try {
    result = (await redis.hget(RESULTS, task)) ?? (await renewing(leased, work(task)));
  } catch (error) {
    await renew(leased, RETRY_S); // it goes back to the list then
    console.log(`${task} failed: ${error.message}`);
    return;
  }
  console.log((await finish(leased, result)) ? `${task} is done` : `${task} was done`);
}

let stop = false;
for (const name of ["SIGTERM", "SIGINT"]) process.on(name, () => (stop = true));
await setUp();
while (!stop) {
  try {
    const leased = await lease();
    if (leased !== null) await run(leased);
  } catch (error) {
    console.log(error.message); // the lease of a task ends by itself
    await sleep(1000);
  }
}
redis.disconnect();
