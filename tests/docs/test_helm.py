"""deploy/helm: what the chart renders to is checked by its schemas, and against the manifests."""

from __future__ import annotations

import re
import subprocess
from functools import cache
from pathlib import Path
from typing import Any, Final

import kubernetes_validate
import pytest
import yaml

from tests.docs.programs import tool
from tests.support.servers import ROOT
from ttlproxy import __version__
from ttlproxy.config import SETTINGS, Settings
from ttlproxy.telemetry.memory import needed

CHART: Final = ROOT / "deploy" / "helm" / "ttlproxy"
PROMETHEUS: Final = ROOT / "deploy" / "prometheus"
STANDALONE: Final = ROOT / "deploy" / "kubernetes" / "standalone"
OLDEST: Final = "1.29"
# Those of the Prometheus Operator, whose schemas are not at hand.
_UNCHECKED: Final = {"PodMonitor", "PrometheusRule"}
_ALWAYS: Final = {"Deployment", "Service"}
_USUALLY: Final = _ALWAYS | {"PodDisruptionBudget", "NetworkPolicy"}
_VALUES: Final = {path.name.removesuffix("-values.yaml"): path for path in CHART.glob("ci/*")}
_KINDS: Final = {
    "default": _USUALLY,
    "open": _ALWAYS,
    "drain": _USUALLY,
    "cluster": _USUALLY,
    "secrets": _USUALLY,
    "everything": _USUALLY
    | _UNCHECKED
    | {"ConfigMap", "HorizontalPodAutoscaler", "ServiceAccount"},
}

Manifests = dict[str, dict[str, Any]]
"""kind -> manifest"""


def _helm(*words: str | Path, values: str = "") -> str:
    command = [tool("helm"), *words]
    done = subprocess.run(
        command, input=values, capture_output=True, text=True, check=False, timeout=60
    )
    if done.returncode:
        raise ValueError(done.stdout + done.stderr)
    return done.stdout


@cache
def _rendered(values: str) -> Manifests:
    """The manifests of a release called shop; `values`: those of a file in ci/, or as text."""
    file = _VALUES.get(values)
    words = ("template", "shop", CHART, "--namespace", "web", "--kube-version", OLDEST, "--values")
    said = _helm(*words, file or "-", values="" if file else values)
    manifests = [*yaml.load_all(said, _Strict)]
    assert len({each["kind"] for each in manifests}) == len(manifests)
    return {each["kind"]: each for each in manifests}


class _Strict(yaml.SafeLoader):
    """Refuses a key that is there twice, as Kubernetes and Helm 4 do."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        names = [self.construct_object(name) for name, _ in node.value]
        assert len(set(names)) == len(names), names
        return super().construct_mapping(node, deep)


def _pod(manifests: Manifests) -> dict[str, Any]:
    pod: dict[str, Any] = manifests["Deployment"]["spec"]["template"]["spec"]
    return pod


def _container(manifests: Manifests) -> dict[str, Any]:
    container: dict[str, Any]
    (container,) = _pod(manifests)["containers"]
    return container


def _env(manifests: Manifests) -> dict[str, Any]:
    env = _container(manifests)["env"]
    names = [each["name"] for each in env]
    assert len(set(names)) == len(names), names
    return {each["name"]: each.get("value") for each in env}


def _ports(manifests: Manifests) -> dict[str, int]:
    return {each["name"]: each["containerPort"] for each in _container(manifests)["ports"]}


def test_all_values_of_the_folder_are_rendered() -> None:
    assert _VALUES.keys() == _KINDS.keys()


@pytest.mark.parametrize("name", _KINDS)
def test_the_chart_renders_to_what_the_schemas_say(name: str) -> None:
    manifests = _rendered(name)
    assert manifests.keys() == _KINDS[name]
    assert len({each["metadata"]["name"] for each in manifests.values()}) == 1
    for kind in manifests.keys() - _UNCHECKED:
        for version in (OLDEST, kubernetes_validate.latest_version()):
            kubernetes_validate.validate(manifests[kind], version, strict=True)


@pytest.mark.parametrize("name", _KINDS)
def test_the_proxy_takes_the_settings_of_the_chart(name: str, tmp_path: Path) -> None:
    mounted = tmp_path / "mounted"  # stands for all files that are mounted
    mounted.write_text("secret\n")
    given = {
        word.removeprefix("TTLPROXY_").lower(): mounted if value.startswith("/run/") else value
        for word, value in _env(_rendered(name)).items()
        if value is not None
    }
    assert given.keys() <= SETTINGS.keys()
    read = Settings.read(given)
    assert read.listen.port == _ports(_rendered(name))["redis"]
    assert read.admin
    assert read.admin.port == _ports(_rendered(name))["admin"]
    assert len(read.addresses) == len(_ports(_rendered(name))) - 1
    assert _pod(_rendered(name))["terminationGracePeriodSeconds"] > read.drain_min + read.drain_max
    limit = _container(_rendered(name))["resources"]["limits"]["memory"]
    assert needed(read) < int(limit[:-2]) << {"Mi": 20, "Gi": 30}[limit[-2:]]


@pytest.mark.parametrize("name", _KINDS)
def test_a_client_of_the_service_gets_to_the_proxy(name: str) -> None:
    manifests = _rendered(name)
    ports, service = _ports(manifests), manifests["Service"]["spec"]
    assert service["selector"].items() <= _labels(manifests).items()
    targets = [each["targetPort"] for each in service["ports"]]
    assert {*targets} == ports.keys() - {"admin"}
    first = service["ports"][0]["port"]
    steps = [ports[target] - ports["redis"] for target in targets]
    assert [each["port"] - first for each in service["ports"]] == steps
    announced = _env(manifests)["TTLPROXY_CLUSTER_ANNOUNCE"]
    assert announced == f"{manifests['Service']['metadata']['name']}.web:{first}"
    if "NetworkPolicy" in manifests:
        clients, monitoring = manifests["NetworkPolicy"]["spec"]["ingress"]
        assert [each["port"] for each in clients["ports"]] == targets
        assert monitoring["ports"] == [{"port": "admin"}]
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert _container(manifests)[probe]["httpGet"]["port"] == "admin"


def _labels(manifests: Manifests) -> dict[str, str]:
    labels: dict[str, str] = manifests["Deployment"]["spec"]["template"]["metadata"]["labels"]
    return labels


def _spread(pod: dict[str, Any]) -> list[dict[str, Any]]:
    """The constraints, without the labels of the pods."""
    return [
        {name: value for name, value in each.items() if name != "labelSelector"}
        for each in pod["topologySpreadConstraints"]
    ]


def test_its_proxies_are_those_of_the_manifests() -> None:
    manifests = _rendered("default")
    deployment = yaml.safe_load((STANDALONE / "deployment.yaml").read_text())
    (own,) = yaml.safe_load((STANDALONE / "kustomization.yaml").read_text())["configMapGenerator"]
    ours, theirs = _container(manifests), _container({"Deployment": deployment})
    for name in ("ports", "startupProbe", "readinessProbe", "livenessProbe", "securityContext"):
        assert ours[name] == theirs[name], name
    assert ours["resources"] == theirs["resources"]
    settings = _env({"Deployment": deployment}) | dict(
        literal.split("=", 1) for literal in own["literals"]
    )
    address = {"TTLPROXY_CLUSTER_ANNOUNCE": "shop-ttlproxy.web:6379"}
    assert _env(manifests) == settings | address
    assert ours["image"] == f"ttlproxy:{__version__}"
    ours, theirs = _pod(manifests), deployment["spec"]["template"]["spec"]
    assert ours["terminationGracePeriodSeconds"] == theirs["terminationGracePeriodSeconds"]
    assert _spread(ours) == _spread(theirs)


def test_proxies_that_all_pods_can_reach_are_in_protected_mode() -> None:
    assert "TTLPROXY_PROTECTED_MODE" not in _env(_rendered("open"))


def test_ports_and_times_follow_from_the_settings() -> None:
    manifests = _rendered("drain")
    assert _ports(manifests) == {"redis": 7000, "admin": 9100}
    assert _pod(manifests)["terminationGracePeriodSeconds"] == 140
    env = _env(manifests)
    assert env["TTLPROXY_MAX_REQUEST_BYTES"] == "67108864"
    assert "TTLPROXY_LOG_FORMAT" not in env
    annotations = manifests["Deployment"]["spec"]["template"]["metadata"]["annotations"]
    assert annotations["prometheus.io/port"] == "9100"


@pytest.mark.parametrize(
    ("name", "ports"),
    [
        ("default", [6379]),
        ("cluster", [7000, 7001, 6379]),
        ("secrets", [6379, 5000, 26379]),
        ("everything", [6379, 6380]),
        ("{extraEnv: [{name: TTLPROXY_UPSTREAM, value: 'redis://a:7000'}]}", [6379, 26379]),
    ],
)
def test_the_network_policy_lets_the_proxies_reach_redis(name: str, ports: list[int]) -> None:
    redis, _ = _rendered(name)["NetworkPolicy"]["spec"]["egress"]
    assert [each["port"] for each in redis["ports"]] == ports


def test_a_cluster_has_a_port_for_each_master() -> None:
    manifests = _rendered("cluster")
    nodes = {f"node-{number}": 6380 + number for number in (1, 2, 3, 4)}
    assert _ports(manifests) == {"redis": 6380, **nodes, "admin": 9380}
    assert [each["port"] for each in manifests["Service"]["spec"]["ports"]] == [*range(6379, 6384)]
    assert _env(manifests)["TTLPROXY_CLUSTER_SPLIT"] == "no"


def test_secrets_and_volumes_reach_the_proxies() -> None:
    manifests = _rendered("secrets")
    mounts = {each["name"]: each["mountPath"] for each in _container(manifests)["volumeMounts"]}
    paths = {
        "passwords": "/run/secrets/passwords",
        "shop-tls": "/run/secrets/shop-tls",
        "company-ca": "/run/ca",
    }
    assert {
        (each.get("secret") or {}).get("secretName") or each["configMap"]["name"]: mounts[
            each["name"]
        ]
        for each in _pod(manifests)["volumes"]
    } == paths
    assert _container(manifests)["env"][-1]["valueFrom"]["secretKeyRef"]["name"] == "passwords"
    for value in (value for value in _env(manifests).values() if value and value[0] == "/"):
        assert value.rpartition("/")[0] in paths.values()


def test_what_a_platform_asks_for_is_in_the_pods() -> None:
    manifests = _rendered("everything")
    deployment, pod = manifests["Deployment"], _pod(manifests)
    assert deployment["metadata"]["name"] == "element-ttl"
    assert _labels(manifests)["app.kubernetes.io/name"] == "element-ttl"
    assert _labels(manifests)["team"] == "shop"
    assert "replicas" not in deployment["spec"]
    assert manifests["HorizontalPodAutoscaler"]["spec"]["scaleTargetRef"] == {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "name": "element-ttl",
    }
    assert pod["serviceAccountName"] == manifests["ServiceAccount"]["metadata"]["name"]
    assert pod["securityContext"] == {"fsGroup": 65532}
    assert pod["priorityClassName"] == "system-cluster-critical"
    (spread,) = pod["topologySpreadConstraints"]
    assert spread["maxSkew"] == 2
    assert spread["matchLabelKeys"] == ["pod-template-hash"]
    assert spread["labelSelector"] == {"matchLabels": deployment["spec"]["selector"]["matchLabels"]}
    assert pod["nodeSelector"] == {"disk": "ssd"}
    assert pod["tolerations"] == [{"key": "redis", "operator": "Exists"}]
    assert pod["affinity"] == {"nodeAffinity": {}}
    assert pod["imagePullSecrets"] == [{"name": "registry"}]
    assert _container(manifests)["lifecycle"] == {"preStop": {"sleep": {"seconds": 5}}}
    annotations = deployment["spec"]["template"]["metadata"]["annotations"]
    assert annotations["prometheus.io/scrape"] == "true"


def test_alerts_and_dashboard_come_with_the_chart() -> None:
    rule, board = _rendered("everything")["PrometheusRule"], _rendered("everything")["ConfigMap"]
    alerts = (PROMETHEUS / "alerts.yaml").read_text()
    ours = re.sub("(?<=runbook_url: )[^#]*", "https://docs.internal/runbooks/", alerts)
    assert rule["spec"] == yaml.safe_load(ours)
    assert rule["metadata"]["labels"]["release"] == "prometheus"
    assert board["data"] == {"ttlproxy.json": (PROMETHEUS / "dashboard.json").read_text()}
    assert board["metadata"]["labels"]["grafana_dashboard"] == "1"


def test_an_outage_takes_no_pod_out_of_its_service_if_the_values_say_so() -> None:
    probe = _container(_rendered("everything"))["readinessProbe"]
    assert probe == {"httpGet": {"path": "/livez", "port": "admin"}, "periodSeconds": 2}


@pytest.mark.parametrize(
    ("values", "name", "value"),
    [
        ("{settings: {TTLPROXY_PROTECTED_MODE: 'yes'}}", "TTLPROXY_PROTECTED_MODE", "yes"),
        ("{settings: {TTLPROXY_HOLD_MAX: 0.5}}", "TTLPROXY_HOLD_MAX", "0.5"),
        ("{settings: {TTLPROXY_PROXY_PROTOCOL: yes}}", "TTLPROXY_PROXY_PROTOCOL", "yes"),
        ("{settings: {TTLPROXY_CLUSTER_ANNOUNCE: 'a:1'}}", "TTLPROXY_CLUSTER_ANNOUNCE", "a:1"),
        ("{extraEnv: [{name: TTLPROXY_LOG_FORMAT, value: text}]}", "TTLPROXY_LOG_FORMAT", "text"),
    ],
)
def test_what_the_user_says_replaces_what_the_chart_says(
    values: str, name: str, value: str
) -> None:
    assert _env(_rendered(values))[name] == value


@pytest.mark.parametrize(
    "values",
    ["replica: 3", "upstream: redis", "settings: {WORKERS: 2}", "image: {tags: a}", "secrets: a"],
)
def test_wrong_values_are_refused(values: str) -> None:
    with pytest.raises(ValueError, match=r"values don't meet the specifications"):
        _rendered(values)


_SECRET: Final = "hunter2"


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (f"upstream: redis://:{_SECRET}@redis", "a password is in TTLPROXY_UPSTREAM,"),
        (f"upstream: redis://a:{_SECRET}@b:1,c:2", "a password is in TTLPROXY_UPSTREAM,"),
        (
            f"settings: {{TTLPROXY_UPSTREAM_PASSWORD: {_SECRET}}}",
            "a password is in TTLPROXY_UPSTREAM_PASSWORD,",
        ),
        (
            f"extraEnv: [{{name: TTLPROXY_SENTINEL_PASSWORD, value: {_SECRET}}}]",
            "a password is in TTLPROXY_SENTINEL_PASSWORD,",
        ),
        ("settings: {TTLPROXY_LISTEN: 127.0.0.1:6380}", "that other pods can reach"),
        ("settings: {TTLPROXY_LISTEN: 'unix:///a'}", "that other pods can reach"),
        ("settings: {TTLPROXY_ADMIN: null}", "that other pods can reach"),
        ("terminationGracePeriodSeconds: 39", "are 40 seconds together"),
        ("extraEnv: [{name: TTLPROXY_LISTEN, value: '0.0.0.0:1'}]", "must be in settings"),
        ("extraEnv: [{name: A, value: a}, {name: A, value: b}]", "extraEnv has A twice"),
        ("{autoscaling: {enabled: true}, resources: {requests: {cpu: null}}}", "requests.cpu"),
    ],
)
def test_values_that_would_fail_later_are_refused_with_the_reason(values: str, said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)) as refused:
        _rendered(values)
    assert _SECRET not in str(refused.value)


@pytest.mark.parametrize("name", _KINDS)
def test_the_linter_finds_nothing(name: str) -> None:
    _helm("lint", "--strict", "--kube-version", OLDEST, "--values", _VALUES[name], CHART)


def test_the_readme_has_every_value() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    text = (CHART / "README.md").read_text()
    rows = re.findall(r"^\| `(\w+)`", text.partition("## Values")[2], re.MULTILINE)
    assert sorted(rows) == sorted([*values, "global"])
    linked = re.findall(r"\(ci/([a-z]+)-values\.yaml\)", text)
    assert {*linked} == {*_VALUES}
