"""deploy/prometheus: each alert fires for the fleet that is ill, and for no other; the dashboard.

promtool evaluates the rules on series that look like those of proxies with the shipped settings.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
import yaml

from tests.docs.generated import PROMETHEUS, alerts, prometheus_rule
from tests.docs.programs import run, tool
from tests.support.servers import ROOT
from ttlproxy.config import Settings
from ttlproxy.telemetry.metrics_catalogue import METRICS

ALERTS: Final = PROMETHEUS / "alerts.yaml"
DASHBOARD: Final = PROMETHEUS / "dashboard.json"
RUNBOOKS: Final = ROOT / "docs" / "runbooks.md"
# Metrics of prometheus-client and of Prometheus itself.
_OTHER_METRICS: Final = {"up", "process_cpu_seconds_total", "process_resident_memory_bytes"}
RULES: Final[dict[str, dict[str, Any]]] = {
    rule["alert"]: rule for rule in yaml.safe_load(ALERTS.read_text())["groups"][0]["rules"]
}
_SIDECAR: Final = (ROOT / "deploy" / "kubernetes" / "sidecar" / "sidecar.yaml").read_text()
_LIMIT: Final = re.search(r"limits:\n +memory: (\d+)Mi", _SIDECAR)
assert _LIMIT
MEMORY: Final = int(_LIMIT[1]) << 20
CLIENTS: Final = Settings().max_clients  # the manifests do not set it
# Of how many samples a series has, one in 15 s.
_SAMPLES: Final = 200
_OURS, _THEIRS = (
    {"namespace": name, "job": f"{name}/sidecars", "instance": f"{name}:9380", "pod": f"{name}-1"}
    for name in ("shop", "blog")
)
# Some alerts are about a fleet, not about one of its proxies.
FLEET: Final = ("namespace", "job")
PROXY: Final = (*FLEET, "instance", "pod")

Sides = tuple[dict[str, str], dict[str, str]]


class Case(NamedTuple):
    """ill, well: values of the series of a fleet that is ill and of one that is well, both by name
    and further labels; a number stays, and `+N` is added in each sample

    labels: what the alert has: PROXY or FLEET, and further ones with their values
    """

    ill: Mapping[str, str]
    well: Mapping[str, str]
    of: tuple[str, ...] = PROXY
    labels: Mapping[str, str] = {}


def _histogram(name: str, labels: str, slow: str, fast: str) -> Sides:
    """All observations of the first are above the bound `fast`, and below `slow`; of the second
    below `fast`."""
    ill = {fast: "0", slow: "+9", "+Inf": "+9"}
    well = {fast: "+9", slow: "+9", "+Inf": "+9"}
    ours, theirs = (
        {f'{name}_bucket{{{labels}le="{bound}"}}': values for bound, values in side.items()}
        for side in (ill, well)
    )
    return ours, theirs


def _node(name: str) -> str:
    return f'{name}{{node="redis:6379"}}'


_UP: Final = {"up": "1", "ttlproxy_link_up": "1"}
_NODE: Final = {"node": "redis:6379"}
CASES: Final = {
    "TtlproxyDown": Case({"up": "1x9 0x300", "ttlproxy_link_up": "1x9 _x300"}, _UP),
    "TtlproxyAbsent": Case({}, {}, of=()),
    "TtlproxyFleetAbsent": Case({"ttlproxy_link_up": "1x9 _x300"}, _UP, of=FLEET),
    "TtlproxyLinkDown": Case({"ttlproxy_link_up": "0"}, _UP),
    "TtlproxyMasterNotServed": Case(
        {"ttlproxy_link_up": "1", _node("ttlproxy_node_up"): "0"},
        # It has lost its only server, of which TtlproxyLinkDown tells.
        {"ttlproxy_link_up": "0", _node("ttlproxy_node_up"): "0"},
        labels=_NODE,
    ),
    "TtlproxyClocksDiffer": Case(
        {_node("ttlproxy_node_clock_ahead_seconds"): "1.5"},
        {_node("ttlproxy_node_clock_ahead_seconds"): "0.5"},
        of=FLEET,
        labels=_NODE,
    ),
    "TtlproxyConnectionsWait": Case(
        {_node("ttlproxy_node_connections_waiting"): "1"},
        {_node("ttlproxy_node_connections_waiting"): " ".join(["3 0"] * 100)},
        labels=_NODE,
    ),
    "TtlproxyMasterRefusesClients": Case(
        {_node("ttlproxy_node_connections_refused_total"): "+1"},
        {_node("ttlproxy_node_connections_refused_total"): "7"},
        labels=_NODE,
    ),
    "TtlproxyOverdue": Case(
        {"ttlproxy_oldest_overdue_seconds": "11"}, {"ttlproxy_oldest_overdue_seconds": "2"}
    ),
    "TtlproxyParkedKeys": Case(
        {'ttlproxy_parked_keys{reason="oom"}': "1"},
        {'ttlproxy_parked_keys{reason="oom"}': "0"},
        labels={"reason": "oom"},
    ),
    "TtlproxyReapsLate": Case(*_histogram("ttlproxy_reap_lag_seconds", "", "2", "1"), of=FLEET),
    "TtlproxyReapsSlow": Case(
        *_histogram("ttlproxy_reap_call_seconds", "", "0.1", "0.05"), of=FLEET
    ),
    "TtlproxyRefusals": Case({"ttlproxy_refusals_total": "+1"}, {"ttlproxy_refusals_total": "7"}),
    "TtlproxyClientsRefused": Case(
        {"ttlproxy_connections_refused_total": "+1"}, {"ttlproxy_connections_refused_total": "7"}
    ),
    "TtlproxyClientsCutOff": Case(
        {'ttlproxy_connections_closed_total{reason="buffers"}': "+1"},
        {'ttlproxy_connections_closed_total{reason="client"}': "+1"},
        labels={"reason": "buffers"},
    ),
    "TtlproxyHoldsLong": Case(
        *_histogram("ttlproxy_hold_seconds", 'reason="reap",', "2", "1"), labels={"reason": "reap"}
    ),
    "TtlproxyBuffersLarge": Case(
        {"ttlproxy_buffers_used_ratio": "0.8"},
        {"ttlproxy_buffers_used_ratio": "0.7"},
    ),
    "TtlproxyMemoryShort": Case(
        {
            "ttlproxy_memory_used_bytes": f"{0.8 * MEMORY}",
            "ttlproxy_memory_limit_bytes": f"{MEMORY}",
        },
        {"ttlproxy_memory_used_bytes": f"{0.8 * MEMORY}", "ttlproxy_memory_limit_bytes": "Inf"},
    ),
    "TtlproxyClientsMany": Case(
        {"ttlproxy_connections": f"{0.8 * CLIENTS}", "ttlproxy_max_clients": f"{CLIENTS}"},
        {"ttlproxy_connections": f"{0.7 * CLIENTS}", "ttlproxy_max_clients": f"{CLIENTS}"},
    ),
    "TtlproxyEventLoopLate": Case(*_histogram("ttlproxy_event_loop_lag_seconds", "", "0.2", "0.1")),
    # In the tests of Prometheus it is 1970.
    "TtlproxyCertificateEnds": Case(
        {
            'ttlproxy_certificate_expires_timestamp_seconds{certificate="upstream_ca"}': (
                f"{13 * 86400}"
            )
        },
        {
            'ttlproxy_certificate_expires_timestamp_seconds{certificate="upstream_ca"}': (
                f"{15 * 86400}"
            )
        },
        labels={"certificate": "upstream_ca"},
    ),
    "TtlproxyWorkersReplaced": Case(
        {"ttlproxy_workers_replaced_total": "+1"}, {"ttlproxy_workers_replaced_total": "7"}
    ),
    "TtlproxyDeadLetters": Case(
        {"ttlproxy_dead_letters_total": "+1"}, {"ttlproxy_dead_letters_total": "7"}
    ),
    "TtlproxyDeferredLate": Case(
        {_node("ttlproxy_node_next_deferred_seconds"): "-11"},
        {_node("ttlproxy_node_next_deferred_seconds"): "-5"},
        of=FLEET,
        labels=_NODE,
    ),
    "TtlproxyKeptLong": Case(
        {_node("ttlproxy_node_oldest_kept_seconds"): "90000"},
        {_node("ttlproxy_node_oldest_kept_seconds"): "86000"},
        of=FLEET,
        labels=_NODE,
    ),
    "TtlproxyUnsigned": Case(
        {'ttlproxy_unsigned_total{kind="rule"}': "+1"},
        {'ttlproxy_unsigned_total{kind="rule"}': "7"},
        labels={"kind": "rule"},
    ),
}


def _series(fleet: Mapping[str, str], series: Mapping[str, str]) -> list[dict[str, str]]:
    found = []
    for name, values in series.items():
        metric, _, own = name.removesuffix("}").partition("{")
        labels = ",".join([*filter(None, [own]), *(f'{key}="{fleet[key]}"' for key in fleet)])
        if values.startswith("+"):
            values = f"0{values}x{_SAMPLES}"
        elif " " not in values:
            values = " ".join([values] * _SAMPLES)
        found.append({"series": f"{metric}{{{labels}}}", "values": values})
    return found


def test_every_alert_has_a_case() -> None:
    assert CASES.keys() == RULES.keys()


@pytest.mark.parametrize("alert", CASES)
def test_an_alert_fires_for_the_fleet_that_is_ill_beside_one_that_is_well(
    alert: str, tmp_path: Path
) -> None:
    case = CASES[alert]
    series = [*_series(_OURS, case.ill), *_series(_THEIRS, case.well)]
    labels = {**RULES[alert]["labels"], **{name: _OURS[name] for name in case.of}, **case.labels}
    fires = {"exp_labels": labels}
    # promtool compares annotations too, so they are left out.
    rules = yaml.safe_load(ALERTS.read_text())
    for rule in rules["groups"][0]["rules"]:
        del rule["annotations"]
    (tmp_path / "alerts.yaml").write_text(yaml.safe_dump(rules))
    test = {
        "interval": "15s",
        "input_series": series,
        "alert_rule_test": [{"eval_time": "20m", "alertname": alert, "exp_alerts": [fires]}],
    }
    tests = {"rule_files": ["alerts.yaml"], "evaluation_interval": "15s", "tests": [test]}
    (tmp_path / "tests.yaml").write_text(yaml.safe_dump(tests))
    run([tool("promtool"), "test", "rules", "tests.yaml"], tmp_path)


def test_prometheus_takes_the_alerts_and_the_queries_of_the_dashboard(tmp_path: Path) -> None:
    queries = [query.replace("$__rate_interval", "5m") for query in _queries()]
    rules = [{"record": f"query:{number}", "expr": query} for number, query in enumerate(queries)]
    (tmp_path / "queries.yaml").write_text(
        yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]})
    )
    run([tool("promtool"), "check", "rules", str(ALERTS), "queries.yaml"], tmp_path)


def test_the_manifest_of_the_operator_has_the_same_alerts() -> None:
    manifest = (PROMETHEUS / "prometheus-rule.yaml").read_text()
    assert ALERTS.read_text() == alerts(), "python -m tests.docs.generated writes it anew"
    assert manifest == prometheus_rule(), "python -m tests.docs.generated writes it anew"
    assert yaml.safe_load(manifest)["spec"] == yaml.safe_load(ALERTS.read_text())


def test_every_alert_has_a_runbook() -> None:
    headings = re.findall(r"^## (.+)$", RUNBOOKS.read_text(), re.MULTILINE)
    assert headings == [*RULES]
    for alert, rule in RULES.items():
        assert rule["annotations"]["summary"]
        assert rule["annotations"]["runbook_url"].endswith(f"/docs/runbooks.md#{alert.lower()}")


def test_reasons_and_labels_that_alerts_name_are_there() -> None:
    closed = next(metric for metric in METRICS if metric.name.endswith("connections_closed_total"))
    for words in re.findall(r'reason=~"([^"]+)"', ALERTS.read_text()):
        assert set(words.split("|")) <= {*closed.values}


def _metrics(text: str) -> set[str]:
    names = r"\b(ttlproxy_[a-z_]+|process_[a-z_]+|up\b(?=\{))"
    return {name for name in re.findall(names, text) if name != "ttlproxy_"}


@pytest.mark.parametrize("path", [ALERTS, DASHBOARD], ids=lambda path: path.name)
def test_metrics_that_are_named_are_there(path: Path) -> None:
    known = {series for metric in METRICS for series in metric.series} | _OTHER_METRICS
    assert _metrics(path.read_text()) <= known


def test_every_metric_is_on_the_dashboard_or_in_an_alert() -> None:
    shown = _metrics(ALERTS.read_text() + DASHBOARD.read_text())
    unshown = {metric.name for metric in METRICS if not shown & {*metric.series}}
    assert unshown <= {"ttlproxy_workers"}


def _queries() -> list[str]:
    board = json.loads(DASHBOARD.read_text())
    return [target["expr"] for panel in board["panels"] for target in panel.get("targets", ())]


def test_the_dashboard_is_one_that_grafana_can_import() -> None:
    board = json.loads(DASHBOARD.read_text())
    numbers = [panel["id"] for panel in board["panels"]]
    assert len(numbers) == len(set(numbers))
    assert board["panels"][0]["type"] == "row"
    for panel in (panel for panel in board["panels"] if panel["type"] != "row"):
        assert panel["targets"]
        assert panel["datasource"]["uid"] == "${datasource}"
    places = {(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in board["panels"]}
    assert len(places) == len(numbers)


def test_the_dashboard_shows_the_fleets_that_are_chosen_and_few_lines_of_many_proxies() -> None:
    variables = json.loads(DASHBOARD.read_text())["templating"]["list"]
    assert [each["name"] for each in variables] == ["datasource", "namespace", "job", "instance"]
    for query in _queries():
        assert re.match(r"(sum|max|min|count|topk|quantile|histogram_quantile)\b", query), query
        selectors = re.findall(r"\b(?:ttlproxy_|process_|ALERTS)\w*(\{[^}]*\})?", query)
        assert selectors
        for selector in selectors:
            assert 'namespace=~"$namespace", job=~"$job"' in selector, query
