"""Polls in a thread: what they give, how old it is, and what is reported about troubles."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from kaput.errors import LabError
from kaput.monitor.signals import Sample
from kaput.monitor.sources.polling import Polling
from waiting import eventually


class Source:
    """Gives a sample, unless it is asked to fail."""

    def __init__(self) -> None:
        self.polls = 0
        self.troubles: list[str] = []
        self.fails = self.closed = False
        self.requests = 7

    def poll(self) -> list[Sample]:
        self.polls += 1
        if self.fails:
            raise LabError("refused")
        return [Sample("kaput_cluster_reachable", 1, 0)]

    def close(self) -> None:
        self.closed = True


@contextmanager
def polling(source: Source, notes: list[str]) -> Iterator[tuple[Polling, list[Sample]]]:
    taken: list[Sample] = []
    with Polling(source, taken.extend, notes.append, every_s=0.01) as found:
        yield found, taken


def own(found: Polling, name: str) -> float:
    (value,) = [sample.value for sample in found.own_samples() if sample.name == f"kaput_{name}"]
    return value


def test_polling_stops_on_close() -> None:
    source = Source()
    with polling(source, []) as (found, taken):
        assert eventually(lambda: len(taken) > 3)
        assert own(found, "poll_requests") == 7 and own(found, "poll_duration_seconds") >= 0
    polls = source.polls
    assert source.closed and not eventually(lambda: source.polls > polls, 0.1)


def test_poll_age_grows_while_polls_fail() -> None:
    """The thread goes on, and the age is small again when it is well."""
    source, notes = Source(), list[str]()
    with polling(source, notes) as (found, taken):
        assert eventually(lambda: bool(taken))
        source.fails = True
        assert eventually(lambda: own(found, "last_poll_age_seconds") > 0.3)
        source.fails = False
        assert eventually(lambda: own(found, "last_poll_age_seconds") < 0.2)
    assert notes == ["refused"], "said once"


def test_poll_error_is_reported_once_until_it_clears() -> None:
    source, notes = Source(), list[str]()
    found = Polling(source, lambda samples: None, notes.append)
    for troubles in (["a"], ["a", "b"], [], ["a"]):
        source.troubles = troubles
        found.look()
    assert notes == ["a", "b", "a"]
