"""deploy/helm: what the chart renders to is checked by its schemas, and against the manifests."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any, Final

import kubernetes_validate
import pytest
import yaml

from tests.docs.programs import tool
from tests.support.servers import ROOT
from ttlproxy import __version__

CHART: Final = ROOT / "deploy" / "helm" / "ttlproxy"
STANDALONE: Final = ROOT / "deploy" / "kubernetes" / "standalone" / "deployment.yaml"
OLDEST: Final = "1.29"
_LEAST: Final = "{disruptionBudget: {enabled: false}, networkPolicy: {enabled: false}}"
# Everything that is off without it.
_ALL: Final = """
settings: {TTLPROXY_WORKERS: 2, TTLPROXY_PROXY_PROTOCOL: "yes"}
secret: passwords
imagePullSecrets: [{name: registry}]
networkPolicy: {monitoringNamespace: metrics}
podMonitor: {enabled: true, labels: {release: prometheus}}
service: {annotations: {a: b}}
podLabels: {team: shop}
podAnnotations: {a: b}
nodeSelector: {disk: ssd}
tolerations: [{key: redis, operator: Exists}]
affinity: {nodeAffinity: {}}
"""


def _rendered(values: str = "") -> dict[str, dict[str, Any]]:
    """kind -> manifest of a release called shop."""
    words: list[str | Path] = [
        tool("helm"),
        "template",
        "shop",
        CHART,
        "--kube-version",
        OLDEST,
        "--values",
        "-",
    ]
    done = subprocess.run(
        words, input=values, capture_output=True, text=True, check=False, timeout=60
    )
    if done.returncode:
        raise ValueError(done.stderr)
    return {each["kind"]: each for each in yaml.safe_load_all(done.stdout)}


def _container(manifests: dict[str, dict[str, Any]]) -> dict[str, Any]:
    container: dict[str, Any]
    (container,) = manifests["Deployment"]["spec"]["template"]["spec"]["containers"]
    return container


@pytest.mark.parametrize(
    ("values", "kinds"),
    [
        ("", {"Deployment", "Service", "PodDisruptionBudget", "NetworkPolicy"}),
        (_LEAST, {"Deployment", "Service"}),
        (
            _ALL,
            {"Deployment", "Service", "PodDisruptionBudget", "NetworkPolicy", "PodMonitor"},
        ),
    ],
    ids=["none", "less", "all"],
)
def test_the_chart_renders_to_what_the_schemas_say(values: str, kinds: set[str]) -> None:
    manifests = _rendered(values)
    assert manifests.keys() == kinds
    for kind, manifest in manifests.items():
        assert manifest["metadata"]["name"] == "shop-ttlproxy"
        if kind != "PodMonitor":  # the schema of the Prometheus Operator is not at hand
            for version in (OLDEST, kubernetes_validate.latest_version()):
                kubernetes_validate.validate(manifest, version, strict=True)


def test_its_proxies_are_those_of_the_manifests() -> None:
    ours = _container(_rendered())
    theirs = _container({"Deployment": yaml.safe_load(STANDALONE.read_text())})
    for name in ("ports", "startupProbe", "readinessProbe", "livenessProbe", "securityContext"):
        assert ours[name] == theirs[name], name
    assert ours["resources"] == theirs["resources"]
    upstream, *others = ours["env"]
    assert upstream == {"name": "TTLPROXY_UPSTREAM", "value": "redis://redis:6379"}
    assert others == theirs["env"]
    assert ours["image"] == f"ttlproxy:{__version__}"


def test_proxies_that_all_pods_can_reach_are_in_protected_mode() -> None:
    env = _container(_rendered(_LEAST))["env"]
    assert "TTLPROXY_PROTECTED_MODE" not in [each["name"] for each in env]


def test_settings_and_a_secret_reach_the_proxies() -> None:
    container = _container(_rendered(_ALL))
    assert container["env"][-2:] == [
        {"name": "TTLPROXY_PROXY_PROTOCOL", "value": "yes"},
        {"name": "TTLPROXY_WORKERS", "value": "2"},
    ]
    assert container["volumeMounts"] == [
        {"name": "secrets", "mountPath": "/run/secrets/ttlproxy", "readOnly": True}
    ]


@pytest.mark.parametrize(
    "values", ["replica: 3", "upstream: redis", "settings: {WORKERS: 2}", "image: {tags: a}"]
)
def test_wrong_values_are_refused(values: str) -> None:
    with pytest.raises(ValueError, match=r"values don't meet the specifications"):
        _rendered(values)


def test_the_linter_finds_nothing() -> None:
    words: list[str | Path] = [tool("helm"), "lint", "--strict", "--kube-version", OLDEST, CHART]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
