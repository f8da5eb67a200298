// Clients that write, cancel and work while proxies are killed. node chaos.mjs SECONDS PORT... prints
// at the end what they know, with the fields of tests/chaos/ledger.py.
import Redis from "ioredis";

const [seconds, ...ports] = process.argv.slice(2).map(Number);
const HASHES = 20;
const end = Date.now() + seconds * 1000;
const pause = () => new Promise((resolve) => setTimeout(resolve, 4));
const any = (list) => list[Math.floor(Math.random() * list.length)];

const inDoubt = Symbol("in doubt");

// Returns a function that asks one of the proxies: it returns the reply, null for an error, or inDoubt.
function caller() {
  let redis = null;
  return async (...words) => {
    if (!redis) {
      redis = new Redis({
        port: any(ports),
        retryStrategy: null,
        maxRetriesPerRequest: 0,
        autoResendUnfulfilledCommands: false,
      });
      redis.on("error", () => {});
    }
    try {
      return await redis.call(...words);
    } catch (error) {
      if (error.name === "ReplyError") return null;
      redis.disconnect();
      redis = null;
      return inDoubt;
    }
  };
}

function tasks() {
  return { due_ms: {}, written: {}, cancelled: {}, doubted: {} };
}

const deferred = tasks();
const fields = tasks();
const items = { done: {}, doubted: {} };
let count = 0;

async function write(ledger, ask, request) {
  const name = `node-${++count}`;
  const due = Date.now() + 20 + Math.floor(Math.random() * 780);
  ledger.due_ms[name] = due;
  const reply = await ask(...request(name, due));
  if (reply !== inDoubt && reply !== null) ledger.written[name] = 1;
}

async function cancel(ledger, ask, request) {
  const name = any(Object.keys(ledger.written).slice(-100));
  if (name === undefined) return;
  const reply = await ask(...request(name));
  if (reply === inDoubt) ledger.doubted[name] = 1;
  else if (reply === 1) ledger.cancelled[name] = 1;
}

const key = (name) => `h:${Number(name.split("-")[1]) % HASHES}`;

const steps = [
  (ask) =>
    write(deferred, ask, (name, due) =>
      ["DEFER", "PXAT", due, "ID", name, "XADD", "delivered", "*", "task", name]),
  (ask) => cancel(deferred, ask, (name) => ["UNDEFER", "delivered", name]),
  (ask) =>
    write(fields, ask, (name, due) =>
      ["HSETEX", key(name), "PXAT", due, "FIELDS", 1, name, name]),
  (ask) => cancel(fields, ask, (name) => ["HDEL", key(name), name]),
  async (ask) => {
    const item = await ask("LEASE", "work", "busy", "PX", 400, "BLOCK", 500);
    if (item === null || item === inDoubt || Math.random() < 0.3) return;
    const reply = await ask("SREM", "busy", item);
    if (reply === inDoubt) items.doubted[item] = 1;
    else if (reply === 1) items.done[item] = (items.done[item] ?? 0) + 1;
  },
];

await Promise.all(
  steps.map(async (step) => {
    const ask = caller();
    while (Date.now() < end) {
      await step(ask);
      await pause();
    }
  }),
);
// When write() returns, what does not fit into the pipe is not written yet.
process.stdout.write(JSON.stringify({ deferred, fields, items }), () => process.exit(0));
