"""deploy/: manifests checked by their schemas, metrics by their names, units by systemd itself."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from tests.conftest import StartServer
from tests.support.cluster import Node
from tests.support.requirements import absent
from tests.support.sentinels import NAME as SERVICE
from tests.support.sentinels import Sentinel
from tests.support.servers import ROOT, Binary
from ttlproxy.addresses import Listen, Upstream
from ttlproxy.admin.routes import ROUTES
from ttlproxy.config import SETTINGS, Settings
from ttlproxy.telemetry.memory import needed

DEPLOY = ROOT / "deploy"
REPLICA_OF = ["--replicaof", "redis-1 6379"]
KUBERNETES = DEPLOY / "kubernetes"
OLDEST, NEWEST = "1.29", kubernetes_validate.latest_version()
# Of the Prometheus Operator, whose schemas are not at hand.
MONITORS = sorted((KUBERNETES / "monitoring").glob("*-monitor.yaml"))
MANIFESTS = [
    path
    for path in sorted(KUBERNETES.rglob("*.yaml"))
    if path.name != "kustomization.yaml" and path not in MONITORS
]
PATCHES = ("sidecar.yaml", "cronjob.yaml")
# What the component adds the sidecar to: the API, and where its pods are described.
APPLICATIONS = {
    "Deployment": ("apps/v1", ""),
    "StatefulSet": ("apps/v1", ""),
    "DaemonSet": ("apps/v1", ""),
    "Job": ("batch/v1", ""),
    "CronJob": ("batch/v1", "jobTemplate"),
}


def _tool(name: str) -> str:
    path = shutil.which(name)
    if path is None:
        absent(name, f"{name} is not here")
    return path


def _run(*words: str | Path) -> str:
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def _rendered(name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(_run(_tool("kubectl"), "kustomize", KUBERNETES / name)))


def _settings(text: str) -> set[str]:
    return set(re.findall(r"\bTTLPROXY_([A-Z_]+)", text))


def _template(manifest: dict[str, Any]) -> dict[str, Any]:
    """That of its pods."""
    spec: dict[str, Any] = manifest["spec"]
    template: dict[str, Any] = spec.get("jobTemplate", {}).get("spec", spec)["template"]
    return template


def _containers(manifest: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The containers that run ttlproxy."""
    pod = _template(manifest)["spec"]
    for each in (*pod.get("initContainers", ()), *pod.get("containers", ())):
        if each["name"] == "ttlproxy":
            yield each


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: f"{path.parent.name}/{path.name}")
@pytest.mark.parametrize("kubernetes", [OLDEST, NEWEST])
def test_a_manifest_is_as_its_schema_says(path: Path, kubernetes: str) -> None:
    manifest = yaml.safe_load(path.read_text())
    if path.name in PATCHES:  # a patch lacks fields that its kind requires
        lacks: dict[str, object] = {"selector": {}}
        manifest["spec"].update({"schedule": ""} if "cron" in path.name else lacks)
        _template(manifest)["spec"]["containers"] = [{"name": "app"}]
    kubernetes_validate.validate(manifest, kubernetes, strict=True)


def test_alerts_and_dashboard_are_installed_for_the_operator() -> None:
    folder = DEPLOY / "prometheus"
    rendered = yaml.safe_load_all(_run(_tool("kubectl"), "kustomize", folder))
    board, rule = sorted(rendered, key=lambda each: str(each["kind"]))
    assert (board["kind"], rule["kind"]) == ("ConfigMap", "PrometheusRule")
    assert board["data"] == {"ttlproxy.json": (folder / "dashboard.json").read_text()}
    assert board["metadata"]["labels"] == {"grafana_dashboard": "1"}
    assert rule["spec"] == yaml.safe_load((folder / "alerts.yaml").read_text())


@pytest.mark.parametrize("name", ["example", "tutorial", "standalone", "cluster"])
def test_a_kustomization_renders_to_what_its_schemas_say(name: str) -> None:
    for manifest in _rendered(name):
        for version in (OLDEST, NEWEST):
            kubernetes_validate.validate(manifest, version, strict=True)


def test_the_component_adds_a_native_sidecar_to_a_deployment() -> None:
    config, deployment = _rendered("example")
    (proxy,) = _containers(deployment)
    assert proxy["restartPolicy"] == "Always"
    assert proxy["image"] == "registry.example.com/ttlproxy:0.1.0"
    assert proxy["envFrom"] == [{"configMapRef": {"name": config["metadata"]["name"]}}]
    assert "lifecycle" not in proxy
    assert [each["name"] for each in deployment["spec"]["template"]["spec"]["containers"]] == [
        "shop"
    ]


@pytest.mark.parametrize("kind", APPLICATIONS)
def test_the_component_adds_one_to_whatever_has_pods(kind: str, tmp_path: Path) -> None:
    """What the pods' own annotations say of the application stays."""
    shutil.copytree(KUBERNETES, tmp_path, dirs_exist_ok=True)
    api, wrapped = APPLICATIONS[kind]
    own = {"prometheus.io/scrape": "true", "prometheus.io/port": "8000"}
    template = {
        "metadata": {"labels": {"app": "shop"}, "annotations": own},
        "spec": {"containers": [{"name": "shop", "image": "shop"}], "restartPolicy": "OnFailure"},
    }
    spec = {"template": template}
    application = {
        "apiVersion": api,
        "kind": kind,
        "metadata": {"name": "shop"},
        "spec": {wrapped: {"spec": spec}} if wrapped else spec,
    }
    (tmp_path / "example" / "app.yaml").write_text(yaml.safe_dump(application))
    rendered = _run(_tool("kubectl"), "kustomize", tmp_path / "example")
    config, patched = yaml.safe_load_all(rendered)
    (proxy,) = _containers(patched)
    assert proxy["restartPolicy"] == "Always"
    assert proxy["envFrom"] == [{"configMapRef": {"name": config["metadata"]["name"]}}]
    assert _template(patched)["metadata"]["annotations"] == own


def test_the_page_has_the_lines_that_keep_pods_without_redis_ready(tmp_path: Path) -> None:
    shutil.copytree(KUBERNETES, tmp_path, dirs_exist_ok=True)
    page = (ROOT / "docs" / "deploying.md").read_text()
    _, patch, *_ = page.partition("**Readiness.**")[2].split("```")
    file = tmp_path / "example" / "kustomization.yaml"
    file.write_text(file.read_text() + "patches:\n" + patch)
    rendered = _run(_tool("kubectl"), "kustomize", tmp_path / "example")
    (proxy,) = _containers([*yaml.safe_load_all(rendered)][1])
    assert proxy["readinessProbe"]["httpGet"] == {"path": "/livez", "port": "ttlproxy-admin"}


def test_both_patches_add_the_same() -> None:
    folder = KUBERNETES / "sidecar"
    one, other = (_template(yaml.safe_load((folder / name).read_text())) for name in PATCHES)
    assert one == other


def test_prometheus_finds_the_proxies() -> None:
    """By the monitors of the operator, and without it by the names of ports."""
    folder = KUBERNETES / "monitoring"
    pods, services = (yaml.safe_load(path.read_text())["spec"] for path in MONITORS)
    sidecar = yaml.safe_load((KUBERNETES / "sidecar" / "sidecar.yaml").read_text())
    alone = yaml.safe_load((KUBERNETES / "standalone" / "deployment.yaml").read_text())
    service = yaml.safe_load((folder / "service.yaml").read_text())
    ports = [
        {port["name"] for each in _containers(manifest) for port in each["ports"]}
        for manifest in (sidecar, alone)
    ]
    assert pods["selector"]["matchLabels"] == _template(sidecar)["metadata"]["labels"]
    assert {each["port"] for each in pods["podMetricsEndpoints"]} <= ports[0]
    assert services["selector"]["matchLabels"] == service["metadata"]["labels"]
    named = {port["name"]: port["targetPort"] for port in service["spec"]["ports"]}
    assert {named[each["port"]] for each in services["endpoints"]} <= ports[1]
    assert service["spec"]["selector"].items() <= _template(alone)["metadata"]["labels"].items()
    scrape = yaml.safe_load((DEPLOY / "prometheus" / "scrape-kubernetes.yaml").read_text())
    keep = scrape["scrape_configs"][0]["relabel_configs"][0]
    assert len(keep["source_labels"]) == 2
    kept = [
        name
        for name in sorted(set[str]().union(*ports))
        if re.fullmatch(keep["regex"], f"ttlproxy;{name}")
    ]
    assert kept == ["admin", "ttlproxy-admin"]


def test_the_proxies_of_the_cluster_example_find_its_pods() -> None:
    folder = KUBERNETES / "cluster"
    own, redis = yaml.safe_load((folder / "kustomization.yaml").read_text())["configMapGenerator"]
    settings = dict(literal.split("=", 1) for literal in own["literals"])
    pods = yaml.safe_load((folder / "redis.yaml").read_text())
    service = yaml.safe_load((folder / "redis-service.yaml").read_text())
    assert (service["metadata"]["name"], service["spec"]["clusterIP"]) == ("redis", "None")
    assert pods["spec"]["serviceName"] == "redis"
    names = [f"redis-{number}.redis" for number in range(pods["spec"]["replicas"])]
    upstream = Upstream.parse(settings["TTLPROXY_UPSTREAM"])
    assert {address.host for address in upstream.addresses} <= {*names}
    proxies = yaml.safe_load((KUBERNETES / "standalone" / "deployment.yaml").read_text())["spec"]
    most = proxies["replicas"] + proxies["strategy"]["rollingUpdate"]["maxSurge"]
    assert most * int(settings["TTLPROXY_MAX_REDIS_CONNECTIONS"]) < 10_000, "Redis's maxclients"
    for name in (name for name in redis["files"] if name.endswith(".sh")):
        script = (folder / name).read_text()
        _run("sh", "-n", "-c", script)
        assert f"in {' '.join(map(str, range(len(names))))};" in script


@pytest.mark.parametrize(
    "path", ["sidecar/sidecar.yaml", "sidecar/cronjob.yaml", "standalone/deployment.yaml"]
)
def test_a_container_of_ours_is_restricted_and_probed(path: str) -> None:
    (proxy,) = _containers(yaml.safe_load((KUBERNETES / path).read_text()))
    assert proxy["securityContext"] == {
        "runAsNonRoot": True,
        "runAsUser": 65532,
        "runAsGroup": 65532,
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    paths = {route.path for route in ROUTES}
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert proxy[probe]["httpGet"]["path"] in paths
        assert proxy[probe]["httpGet"]["port"] in {port["name"] for port in proxy["ports"]}


FILES = [
    ROOT / "Dockerfile",
    *sorted(path for path in DEPLOY.rglob("*") if path.suffix in (".md", ".yaml", ".service")),
]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_settings_that_are_named_are_there(path: Path) -> None:
    known = {name.upper() for name in SETTINGS} | {"CONFIG"}
    assert _settings(path.read_text()) <= known


def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    text = (DEPLOY / "systemd" / "ttlproxy.service").read_text()
    unit = tmp_path / "ttlproxy.service"
    unit.write_text(text.replace("/opt/ttlproxy/bin/ttlproxy", "/bin/true"))
    said = subprocess.run(
        [_tool("systemd-analyze"), "verify", unit], capture_output=True, text=True, check=False
    )
    assert (said.returncode, said.stderr) == (0, "")


@pytest.mark.parametrize("name", ["compose.yaml", "compose.sentinel.yaml", "compose.cluster.yaml"])
def test_compose_starts_the_image_that_is_built_here_for_this_machine_only(name: str) -> None:
    compose = yaml.safe_load((DEPLOY / name).read_text())
    services = compose["services"]
    proxy = services["ttlproxy"]
    assert (DEPLOY / proxy["build"]["context"] / "Dockerfile").exists()
    for service in services.values():
        assert set(service.get("depends_on", ())) <= services.keys()
    volumes = [volume for service in services.values() for volume in service.get("volumes", ())]
    assert {volume.partition(":")[0] for volume in volumes} == compose["volumes"].keys()
    upstream = Upstream.parse(proxy["environment"]["TTLPROXY_UPSTREAM"])
    named = upstream.sentinels.addresses if upstream.sentinels else upstream.addresses
    assert {address.host for address in named} <= services.keys()
    admin = Listen.parse(proxy["environment"]["TTLPROXY_ADMIN"])
    assert not admin.is_loopback, "no other container or machine would reach it"
    assert proxy["ports"] == [f"127.0.0.1:{port}:{port}" for port in (6380, admin.port)]


@pytest.mark.any_server("7.0")  # that of the image; 6.2 lacks some settings
def test_servers_and_sentinels_take_their_settings_in_compose(
    start_server: StartServer, binary: Binary
) -> None:
    compose = yaml.safe_load((DEPLOY / "compose.sentinel.yaml").read_text())
    commands = {
        name: service["command"][1:]
        for name, service in compose["services"].items()
        if name.startswith("redis")
    }
    replicas = [name for name, words in commands.items() if words[-2:] == REPLICA_OF]
    assert replicas == ["redis-2", "redis-3"]
    for name, words in commands.items():
        assert words[words.index("--replica-announce-ip") + 1] == name
        server = start_server(*words)
    lines = compose["configs"]["sentinel"]["content"].splitlines()
    lines.remove(f"sentinel monitor {SERVICE} redis-1 6379 2")  # the Sentinel of tests has its own
    with Sentinel(binary, server.port, *lines) as sentinel:
        assert sentinel.facts()["down-after-milliseconds"] == 5000


@pytest.mark.any_server
def test_nodes_take_their_settings(binary: Binary) -> None:
    compose = yaml.safe_load((DEPLOY / "compose.cluster.yaml").read_text())
    lines = compose["configs"]["cluster.conf"]["content"].splitlines()
    lines += (KUBERNETES / "cluster" / "redis.conf").read_text().splitlines()
    lines = [line for line in lines if not line.startswith(("#", "dir "))]
    words = [word for line in lines for word in f"--{line}".split()]
    with Node(binary, *words) as node:
        assert b"cluster_known_nodes:1" in node.ask("CLUSTER", "INFO")
    script = compose["configs"]["create.sh"]["content"].replace("$$", "$")
    _run("sh", "-n", "-c", script)
    nodes = [name for name in compose["services"] if name.startswith("redis-")]
    assert f'nodes="{" ".join(nodes)}"' in script
    assert compose["services"]["create"]["depends_on"] == nodes


def test_the_image_has_a_numeric_user_and_needs_no_shell() -> None:
    lines = (ROOT / "Dockerfile").read_text().splitlines()
    last = lines[max(at for at, line in enumerate(lines) if line.startswith("FROM")) :]
    assert not [line for line in last if line.startswith(("RUN", "SHELL"))]
    assert "USER 65532:65532" in last
    for word in ("ENTRYPOINT", "HEALTHCHECK"):
        (line,) = [line for line in last if line.startswith(word)]
        assert json.loads(line[line.index("[") :])[0] == "ttlproxy"


def test_the_build_of_the_image_gets_the_files_that_it_copies() -> None:
    lines = (ROOT / "Dockerfile").read_text().splitlines()
    copies = [line.split()[1:-1] for line in lines if line.startswith("COPY ")]
    copied = {name for words in copies if not words[0].startswith("--") for name in words}
    given = (ROOT / ".dockerignore").read_text().splitlines()
    assert {f"!{name}" for name in copied} == {line for line in given if line.startswith("!")}


@pytest.mark.parametrize(
    "name",
    [
        "kubernetes/sidecar/sidecar.yaml",
        "kubernetes/sidecar/cronjob.yaml",
        "kubernetes/standalone",
        "helm/ttlproxy/values.yaml",
        "compose.yaml",
        "compose.sentinel.yaml",
        "compose.cluster.yaml",
    ],
)
def test_what_the_settings_allow_fits_into_the_memory_of_the_container(name: str) -> None:
    path = DEPLOY / name
    files = [path] if path.is_file() else sorted(path.iterdir())
    text = "".join(file.read_text() for file in files)
    kept, request = (
        int(re.findall(rf"{setting}\D*(\d+)", text)[0])
        for setting in ("MAX_BUFFER_BYTES", "MAX_REQUEST_BYTES")
    )
    limit = int(
        re.findall(r"memory: (\d+)Mi|mem_limit: (\d+)m", text)[-1][name.startswith("compose")]
    )
    settings = Settings(
        admin=Listen("0.0.0.0", 9380), max_buffer_bytes=kept, max_request_bytes=request
    )
    assert needed(settings) / 2**20 < limit
