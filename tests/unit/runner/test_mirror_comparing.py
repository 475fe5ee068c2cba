"""The answers about mirrors that the runner keeps, and what it waits for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fakes.cluster import FakeAdmin
from kaput.cluster.admin import PartitionState
from kaput.cluster.kafka_cluster import ClusterAddress
from kaput.core import TopicPartition
from kaput.errors import LabError
from kaput.evidence.comparisons import read_compared
from kaput.evidence.folder import RunFolder
from kaput.runner.mirrors.drain import MirroredTo, await_mirrored, compare_mirrors
from kaput.scenario.mirrors import Mirror
from kaput.scenario.model import Topic

SERVERS = {"dc1": "a:1", "dc2": "b:2", "dc3": "c:3", "dc4": "d:4"}
CLUSTERS = {name: ClusterAddress(name, servers) for name, servers in SERVERS.items()}


def _mirror(target: str) -> Mirror:
    return Mirror.model_validate({"from": "dc1", "to": target, "topics": ["orders"]})


def test_failed_mirror_comparison_has_its_reason(tmp_path: Path) -> None:
    """The other mirror's is kept as it is, and the run goes on, whatever the error."""
    notes: list[str] = []

    def compare(mirror: Mirror, source: ClusterAddress, target: ClusterAddress) -> Mapping[str, Any]:
        if mirror.to == "dc3":
            raise LabError(f"{target.servers} cannot be reached")
        if mirror.to == "dc4":
            raise KeyError("orders")
        assert (source.servers, target.servers) == ("a:1", "b:2")
        return {"schema": "kaput.compare/1", "source": "dc1", "target": "dc2", "status": "identical"}

    folder, mirrors = RunFolder(tmp_path), [_mirror(name) for name in ("dc2", "dc3", "dc4")]
    compare_mirrors(mirrors, CLUSTERS, folder, compare, notes.append)
    done, failed, broken = (read_compared(folder, "dc1", mirror.to) for mirror in mirrors)
    assert done is not None and (done.status, done.notes) == ("identical", [])
    assert failed is not None and (failed.status, failed.notes) == (None, ["c:3 cannot be reached"])
    assert broken is not None and broken.notes == ["KeyError: 'orders'"]
    assert notes[0] == "mirror dc1->dc3 could not be compared: c:3 cannot be reached" and len(notes) == 2


class _Ends(FakeAdmin):
    """A cluster with these topics, of one empty partition each."""

    def __init__(self, *topics: str) -> None:
        super().__init__()
        self.names = list(topics)

    def topics(self) -> list[str]:
        return self.names

    def partitions(self, topics: Iterable[str]) -> dict[tuple[str, int], PartitionState]:
        if missing := {*topics} - {*self.names}:
            raise LabError(f"no broker knows topic {', '.join(missing)}")
        return {TopicPartition(topic, 0): state for (topic, _), state in super().partitions(topics).items()}

    def high_watermarks(self, places: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(places, 0)

    def __enter__(self) -> _Ends:
        return self

    def __exit__(self, *_: object) -> None:
        pass


_EMPTY = [MirroredTo(TopicPartition(topic, 0), 0, 0) for topic in ("orders", "stock")]


@pytest.mark.parametrize(
    ("topics", "deleted", "expected"),
    [
        (["stock"], ["orders"], _EMPTY[1:]),
        (["orders", "stock"], ["orders"], _EMPTY),  # the step comes later, or a client had it created again
        ([], ["orders", "stock"], []),
        (["stock"], [], ["what mirror dc1->dc2 should have is not known: no broker knows topic orders"]),
    ],
)
def test_nothing_of_a_topic_that_a_step_deleted_is_waited_for(
    topics: list[str], deleted: list[str], expected: list[MirroredTo | str]
) -> None:
    """Of others all is, also where one is missing; the target may have one that the source has no more."""
    mirror = Mirror.model_validate({"from": "dc1", "to": "dc2", "topics": ["orders", "stock"]})
    admin, kafka = _Ends(*topics), SimpleNamespace(bootstrap_servers="a:1", access=lambda: None)
    source = SimpleNamespace(admin=admin, kafka=kafka)
    target = SimpleNamespace(kafka=SimpleNamespace(admin=lambda _: _Ends("orders", "stock")))
    gone = [Topic(name=name) for name in deleted]
    assert await_mirrored(mirror, source, target, 1.0, gone) == expected  # type: ignore[arg-type]
