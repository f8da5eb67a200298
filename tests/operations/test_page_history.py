"""Time series from the metrics: rates, quantiles, and what has been added since the last read."""

from ttlproxy.admin.history import (
    HOUR_LENGTH,
    HOUR_STEP,
    LENGTH,
    Growth,
    History,
    gauge,
    quantile,
    rate,
    up,
)
from ttlproxy.telemetry.metric_spec import Report

BOUNDS = [0.001, 0.01, 0.1]


def _history(*reports: Report) -> History:
    history = History(
        {
            "gauge": gauge("g", 1000),
            "up": up(gauge("g")),
            "rate": rate("c"),
            "one": rate("c", "a"),
            "half": quantile("h", 50),
            "most": quantile("h", 99),
        }
    )
    for second, report in enumerate(reports):
        history.take(report, 2.0 * second)
    return history


def _last(*reports: Report) -> dict[str, float | None]:
    series = _history(*reports).since(0)["series"]
    assert isinstance(series, dict)
    return {name: values[-1] for name, values in series.items()}


def test_a_rate_is_a_second_and_of_one_label_or_all() -> None:
    found = _last({"c": {"a": 10.0, "b": 0.0}}, {"c": {"a": 14.0, "b": 20.0}})
    assert (found["rate"], found["one"]) == (12, 2)


def test_a_counter_that_has_shrunk_has_not_gone_backwards() -> None:
    assert _last({"c": {"a": 10.0}}, {"c": {"a": 3.0}})["rate"] == 0


def test_a_quantile_is_of_what_was_counted_meanwhile() -> None:
    before: Report = {"h": (BOUNDS, [1000, 0, 0, 0], 1.0)}
    now: Report = {"h": (BOUNDS, [1001, 2, 0, 1], 2.0)}
    found = _last(before, now)
    assert (found["half"], found["most"]) == (5.5, 100)
    assert _last(now, now)["half"] is None


def test_a_quantile_moves_within_a_bucket_as_its_values_shift() -> None:
    """With the bound of its bucket as value, its line would be stairs."""
    before: Report = {"h": (BOUNDS, [0, 0, 0, 0], 0.0)}
    found = [
        _last(before, {"h": (BOUNDS, [low, 10 - low, 0, 0], 1.0)})["half"] for low in (0, 1, 2, 4)
    ]
    assert found == [5.5, 5.0, 4.375, 2.5]


def test_of_ten_seconds_the_worst_moment_counts_and_rates_are_means() -> None:
    history = History({"level": gauge("g"), "rate": rate("c")}, HOUR_STEP, HOUR_LENGTH)
    levels = [0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, *[1] * HOUR_STEP]
    for second, level in enumerate(levels):
        history.take({"g": level, "c": 5.0 * second}, float(second))
    assert history.since(0) == {"last": 2, "series": {"level": [7, 1], "rate": [5, 5]}}


def test_growth_is_of_the_last_hour_and_of_all_time() -> None:
    growth = Growth("c")
    assert growth.rows() == []
    for second in range(2 * 3600):
        growth.take({"c": {"a": 1.0 if second < 10 else 3.0, "b": float(second), "none": 0.0}})
    assert growth.rows() == [
        {"label": "a", "all": 3, "hour": 0},
        {"label": "b", "all": 7199, "hour": 3609},
    ]


def test_a_gauge_may_be_known_only_while_the_link_is_up() -> None:
    assert _last({}, {"g": 0.5, "ttlproxy_link_up": 1})["up"] == 0.5
    found = _last({}, {"g": 0.5, "ttlproxy_link_up": 0})
    assert (found["gauge"], found["up"]) == (500, None)


def test_what_is_not_there_is_not_known() -> None:
    assert set(_last({}, {}).values()) == {None}


def test_only_what_is_new_is_told_and_not_more_than_is_kept() -> None:
    report: Report = {"g": 1.0}
    history = _history(*[report] * (LENGTH + 51))
    everything, nothing, some = history.since(0), history.since(LENGTH + 50), history.since(LENGTH)
    assert everything["last"] == LENGTH + 50
    assert [_length(body) for body in (everything, nothing, some)] == [LENGTH, 0, 50]
    assert _length(history.since(LENGTH + 51)) == LENGTH
    assert _length(history.since(-1)) == LENGTH


def _length(body: dict[str, object]) -> int:
    series = body["series"]
    assert isinstance(series, dict)
    return len(series["gauge"])
