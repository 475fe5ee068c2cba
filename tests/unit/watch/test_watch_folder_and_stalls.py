"""The run folder of a watch; a partition whose leader stops acknowledging is noted once,
and so is its end.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from kaput.core import SECOND
from kaput.evidence.folder import RunFolder
from kaput.monitor.signals import Sample
from kaput.watch.message_samples import STALLED_S, MessageSamples, SendCounts, Stalls
from kaput.watch.watching import next_numbers


@pytest.mark.parametrize(
    ("files", "numbers"),
    [
        ([], (0, 1, 0)),
        (["cluster_events/watch-0.arrows", "samples/leaders-0.arrows"], (0, 1, 1)),  # killed at its start
        (["sends/producer-0.attempts", "sends/producer-2-unresolved.arrows"], (3, 1, 0)),
        (["group_events/c-reader-m1.arrows", "deliveries/c-reader-m12.arrows"], (0, 13, 0)),
        (["cluster_events/watch-9.arrows", "samples/leaders-36.parquet"], (0, 1, 37)),
    ],
)  # fmt: skip
def test_resumed_watch_uses_new_file_numbers(
    tmp_path: Path, files: list[str], numbers: tuple[int, int, int]
) -> None:
    """Whatever a session that was killed had come to write."""
    for file in files:
        path = tmp_path / "evidence" / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    assert next_numbers(RunFolder(tmp_path)) == numbers


def test_stall_of_a_dead_leader_and_its_end_are_noted() -> None:
    """By what the producers count each second: within four seconds, once, and with both brokers."""
    samples, notes = MessageSamples("canary"), list[tuple[int, str]]()
    at_s = 0
    stalls = Stalls(lambda text: notes.append((at_s, text)))
    for at_s in range(30):
        dead = 10 <= at_s < 20
        sent = 10 * (at_s + 1)
        acked = 100 if dead else sent
        counts = {0: SendCounts(sent, sent, 0, sent), 1: SendCounts(sent, acked, 0, acked)}
        stalls.observe(samples.of_producers(counts, (at_s + 1) * SECOND), {0: 1, 1: 3 if at_s >= 19 else 2})
    assert notes == [
        (12, "canary/1 (led by broker 2): nothing acknowledged for 3.0 s"),
        (20, "canary/1: acknowledged again after 11.0 s, now by broker 3"),
    ]


def test_short_waits_and_other_signals_are_no_stalls() -> None:
    """An election after a controlled shutdown takes less; who led is not known where nobody did."""
    notes: list[str] = []
    stalls = Stalls(notes.append)

    def sample(value: float, name: str = "kaput_unacknowledged_seconds") -> Sample:
        return Sample(name, value, 100 * SECOND, {"topic": "canary", "partition": "0"})

    stalls.observe([sample(STALLED_S - 0.1), sample(99, "kaput_messages_sent_total")], {0: 1})
    assert notes == []
    stalls.observe([sample(STALLED_S)], {0: -1})
    stalls.observe([sample(STALLED_S + 1)], {0: -1})
    stalls.observe([sample(0)], {0: 2})
    assert notes == [
        "canary/0 (no leader): nothing acknowledged for 2.5 s",
        "canary/0: acknowledged again after 2.5 s, now by broker 2",
    ]
