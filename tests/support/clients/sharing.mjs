// Two clients of each library and version of the protocol, with user, database and name, which ask
// once and stay: node sharing.mjs <port>. It prints a line when all have asked, and ends with its
// input.
import Redis from "ioredis";
import { createClient } from "redis";

const port = Number(process.argv[2]);
const user = { username: "anne", password: "a" };
const clients = [];
for (let number = 0; number < 2; number++) {
  const name = { db: 1, connectionName: "mine" };
  clients.push(new Redis({ port, ...user, ...name }));
  for (const RESP of [2, 3]) {
    const name = { database: 1, name: "mine" };
    clients.push(createClient({ socket: { port }, RESP, ...user, ...name }));
    await clients.at(-1).connect();
  }
}
for (const client of clients) await client.set("k", "v");
for (const client of clients) await (client.getBit ?? client.getbit).call(client, "k", 1);
console.log("asked");
process.stdin.on("end", () => process.exit(0)).resume();
