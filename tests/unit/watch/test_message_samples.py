"""What a watch knows of its messages, as samples."""

from __future__ import annotations

from typing import Any

from kaput.core import SECOND
from kaput.monitor.series import SeriesTable
from kaput.monitor.signals import SIGNALS, Sample
from kaput.watch.clients import replicas_of, scenario_of
from kaput.watch.message_samples import LOST_AFTER_NS, MessageSamples, SendCounts

BEGIN = 1_000 * SECOND


def value(samples: list[Sample], name: str, partition: str) -> float:
    """The only sample of that signal and partition."""
    (found,) = [s.value for s in samples if s.name == name and s.labels["partition"] == partition]
    return found


def status(missing: int, second: int = 0, **more: Any) -> dict[str, Any]:
    counts = {"late": 1, "duplicated": 2, "reordered": 3, "missing": missing}
    place = {"topic": "canary", "partition": 0, "stored": 90, **counts}
    return {"at_ns": BEGIN + second * SECOND, "places": [place], "missing": missing, **more}


def waited(samples: MessageSamples, second: int, sent: SendCounts) -> float:
    """How long messages have been waiting, at that second."""
    found = list(samples.of_producers({0: sent}, BEGIN + second * SECOND))
    return value(found, "kaput_unacknowledged_seconds", "0")


def test_unacknowledged_time_counts_from_the_last_ack() -> None:
    """Not while nothing is on its way, and not while acknowledgements come; failures do not count."""
    samples = MessageSamples("canary")
    assert waited(samples, 0, SendCounts(10, 10, 0, 10)) == 0
    assert waited(samples, 60, SendCounts(10, 10, 0, 10)) == 0
    assert waited(samples, 61, SendCounts(11, 10, 0, 10)) == 1
    assert waited(samples, 65, SendCounts(15, 10, 2, 12)) == 5
    assert waited(samples, 66, SendCounts(16, 11, 2, 13)) == 0
    assert waited(samples, 68, SendCounts(18, 11, 2, 13)) == 2


def test_every_sample_has_the_labels_of_its_signal() -> None:
    """As the table of series demands."""
    samples = MessageSamples("canary")
    found = [*samples.of_producers({0: SendCounts(1, 1, 0, 1)}, BEGIN), *samples.of_ledger(status(0))]
    assert all(set(one.labels) == set(SIGNALS[one.name].labels) for one in found)
    assert value(found, "kaput_messages_received_total", "0") == 90
    assert value(found, "kaput_messages_reordered_total", "0") == 3
    assert list(samples.of_ledger({"attempted": 3})) == []


def test_gap_filled_in_time_is_not_lost() -> None:
    """What is missing for longer is; a counter does not go down."""
    samples = MessageSamples("canary")
    wait_s = LOST_AFTER_NS // SECOND

    def lost(missing: int, second: int) -> float:
        return value(list(samples.of_ledger(status(missing, second))), "kaput_messages_lost_total", "all")

    assert [lost(5, 0), lost(5, wait_s - 1), lost(2, wait_s), lost(2, 2 * wait_s)] == [0, 0, 2, 2]
    assert lost(0, 2 * wait_s + 1) == 2


def test_latencies_are_observed_once() -> None:
    """By the broker that leads the partition."""
    samples, series = MessageSamples("canary"), SeriesTable()
    durations = [{"what": "ack", "topic": "canary", "partition": 0, "ms": 4.0, "count": 3}]
    for count in (3, 3, 5):
        durations[0]["count"] = count
        samples.observe(status(0, durations=durations), {0: 7}, series)
    (histogram,) = series.copied()["kaput_produce_latency_seconds"].values()
    assert not isinstance(histogram, float)
    assert (sum(histogram.counts), round(histogram.sum_s, 6)) == (5, 0.02)


def test_each_broker_leads_a_partition_of_the_canary() -> None:
    """And min.insync.replicas leaves room for one that is down."""
    scenario = scenario_of("canary", "reader", [1, 2, 5, 9], 10)
    assert scenario.topics[0].assignment == [[1, 2, 5], [2, 5, 9], [5, 9, 1], [9, 1, 2]]
    assert scenario.topics[0].config["min.insync.replicas"] == 2
    assert replicas_of(4, [4]) == [4]
    assert scenario_of("canary", "reader", [4], 10).topics[0].config["min.insync.replicas"] == 1
