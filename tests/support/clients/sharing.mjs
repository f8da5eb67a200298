// Two clients of each library and version of the protocol, which ask once and stay:
// node sharing.mjs <port> [<key>...]. Without keys they have a user, a database and a name; with keys
// they are clients of Clusters, and ask for each. It prints a line when all have asked, and ends with
// its input.
import Redis from "ioredis";
import { createClient, createCluster } from "redis";

const port = Number(process.argv[2]);
const keys = process.argv.slice(3);

function connectOne() {
  const user = { username: "anne", password: "a" };
  const clientOf = (RESP) => createClient({ socket: { port }, RESP, ...user, database: 1, name: "mine" });
  return [new Redis({ port, ...user, db: 1, connectionName: "mine" }), clientOf(2), clientOf(3)];
}

function connectCluster() {
  const here = { host: "127.0.0.1", port };
  const clientOf = (RESP) => createCluster({ rootNodes: [{ socket: here }], RESP });
  return [new Redis.Cluster([here]), clientOf(2), clientOf(3)];
}

const connect = keys.length ? connectCluster : connectOne;
const names = keys.length ? keys : ["k"];
const clients = [...connect(), ...connect()];
for (const client of clients) if (!client.getbit) await client.connect();
for (const client of clients) for (const key of names) await client.set(key, "v");
for (const client of clients) {
  for (const key of names) await (client.getBit ?? client.getbit).call(client, key, 1);
}
console.log("asked");
process.stdin.on("end", () => process.exit(0)).resume();
