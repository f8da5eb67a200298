"""The metrics in the format of Prometheus."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import accumulate
from typing import Final, cast

from aiohttp import web
from prometheus_client import CollectorRegistry, PlatformCollector, ProcessCollector
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from ttlproxy.telemetry.metric_spec import Buckets, MetricSpec, Value
from ttlproxy.telemetry.metrics_catalogue import METRICS
from ttlproxy.telemetry.worker_totals import Subject


async def metrics(request: web.Request) -> web.Response:
    encode, content_type = choose_encoder(request.headers.get("Accept", ""))
    body = encode(request.app[COLLECTED])
    return web.Response(body=body, headers={"Content-Type": content_type})


def collected(subject: Subject) -> CollectorRegistry:
    """Returns a registry of all metrics of `subject`, which are read anew at each scrape."""
    registry = CollectorRegistry()
    registry.register(_Metrics(subject))
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    return registry


COLLECTED: Final = web.AppKey("collected", CollectorRegistry)


class _Metrics(Collector):
    def __init__(self, subject: Subject) -> None:
        self._subject = subject

    def collect(self) -> Iterator[Metric]:
        report = self._subject.report()
        for row in METRICS:
            if row.name in report:
                yield _FAMILIES[row.kind](row, report[row.name])


def _numbers(family: type[CounterMetricFamily | GaugeMetricFamily]) -> Callable[..., Metric]:
    def metric(row: MetricSpec, value: Value) -> Metric:
        labels = [row.label] if row.label else []
        found = family(row.name, row.meaning, labels=labels)
        by_label = value if isinstance(value, dict) else {"": value}
        for label, number in cast(Mapping[str, float], by_label).items():
            found.add_metric([label] if row.label else [], number)
        return found

    return metric


def _info(row: MetricSpec, value: Value) -> Metric:
    name = row.name.removesuffix("_info")
    return InfoMetricFamily(name, row.meaning, value=cast(dict[str, str], value))


def _histogram(row: MetricSpec, value: Value) -> Metric:
    found = HistogramMetricFamily(row.name, row.meaning, labels=[row.label] if row.label else [])
    by_label = value if isinstance(value, dict) else {"": value}
    for label, (bounds, counts, total) in cast(Mapping[str, Buckets], by_label).items():
        names: Iterable[str] = [*(f"{bound:g}" for bound in bounds), "+Inf"]
        buckets = list(zip(names, map(float, accumulate(counts)), strict=True))
        found.add_metric([label] if row.label else [], buckets, total)
    return found


_FAMILIES: Final[dict[str, Callable[[MetricSpec, Value], Metric]]] = {
    "counter": _numbers(CounterMetricFamily),
    "gauge": _numbers(GaugeMetricFamily),
    "histogram": _histogram,
    "info": _info,
}
