"""When brokers count as warm; the run itself: functional/test_scenarios.py."""

from __future__ import annotations

import pytest

from kaput.runner.warm_up import warm_sentence
from kaput.workload.librdkafka.warm_up import FAST_MS, percentile_99, settled


@pytest.mark.parametrize(
    ("windows", "expected"),
    [
        ([], False),
        ([900.0], False),
        ([900.0, 300.0, 120.0], False),
        ([900.0, 120.0, 130.0], False),
        ([900.0, 120.0, 130.0, 125.0], True),
        ([900.0, 120.0, 130.0, 110.0], False),
        ([FAST_MS], True),
        ([FAST_MS, 500.0], False),
        ([None], False),
        ([None, None, None, None], False),
        ([None, 800.0, None], False),
        ([None, 800.0, None, 900.0], True),
    ],
)
def test_brokers_are_warm_when_latencies_are_short_or_no_longer_fall(
    windows: list[float | None], expected: bool
) -> None:
    """Two windows without a better one; a window without acknowledgements is the worst."""
    assert settled(windows) is expected


@pytest.mark.parametrize(
    ("p99_ms", "sentence"),
    [
        (12.3, "brokers warmed up in 3.1 s: 99 % of acknowledgements within 12.3 ms"),
        (FAST_MS, "brokers warmed up in 3.1 s: 99 % of acknowledgements within 20.0 ms"),
        (20.1, "brokers are not warm after 3.1 s: 99 % of acknowledgements within 20.1 ms (goal: 20 ms)"),
        (2635.6, "brokers are not warm after 3.1 s: 99 % of acknowledgements within 2,636 ms (goal: 20 ms)"),
        (None, "brokers are not warm after 3.1 s: nothing was acknowledged"),
    ],
)
def test_brokers_are_called_warm_only_at_the_goal(p99_ms: float | None, sentence: str) -> None:
    """A warm-up that gave up does not call them so, nor one of which no result is known."""
    other = {"kind": "ready", "at_ns": 5}
    assert warm_sentence([other, {"kind": "warm", "seconds": 3.1, "p99_ms": p99_ms}]) == sentence
    assert warm_sentence([other]).startswith("it is not known whether the brokers are warm")


def test_the_99th_percentile_is_one_of_the_values() -> None:
    """Nearest rank; of nothing there is none."""
    assert percentile_99([]) is None
    assert percentile_99([7.0]) == 7.0
    assert percentile_99([float(n) for n in range(200, 0, -1)]) == 198.0
    assert percentile_99([float(n) for n in range(1, 102)]) == 100.0
