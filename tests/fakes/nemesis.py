"""Plays steps with the nemesis on nodes and a cluster that are doubles."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from fakes.cluster import FakeAdmin, FakeNode
from fakes.members import FakeGroups
from kaput.cluster.network.loopback import Loopback
from kaput.evidence.folder import RunFolder
from kaput.evidence.recorder import Recorder
from kaput.evidence.sealing import seal
from kaput.faults.engine import into
from kaput.faults.event_triggers import EventSource
from kaput.faults.fault import NoGroups
from kaput.faults.nemesis import Nemesis
from kaput.faults.resolving import Surroundings
from kaput.scenario.timeline import Step
from waiting import wait_for


def play(
    tmp_path: Path,
    steps: list[Step],
    drive: Callable[[Nemesis], None],
    admin: FakeAdmin | None = None,
    witness: Any = None,
    node: type[FakeNode] = FakeNode,
    heard: list[tuple[str, str, str]] | None = None,
    *,
    network: Any = None,
    groups: FakeGroups | None = None,
    nodes: dict[int, FakeNode] | None = None,
    sources: Sequence[EventSource] = (),
    **more: Any,
) -> tuple[list[dict[str, Any]], dict[int, FakeNode]]:
    """Plays `steps` with `drive`; the rows of the faults table and the nodes. `more`: as of Surroundings."""
    nodes = nodes or {i: node(i) for i in (1, 2, 3)}
    if witness is not None:
        witness.nodes = nodes
    with Recorder(tmp_path, "faults", "nemesis") as recorder:
        nemesis = Nemesis(
            steps,
            Surroundings(
                nodes=nodes,  # type: ignore[arg-type]
                network=network or Loopback(),
                brokers=lambda: [1, 2, 3],
                admin=admin or FakeAdmin(),  # type: ignore[arg-type]
                topics=["orders"],
                groups=lambda: groups or NoGroups(),  # type: ignore[arg-type, return-value]
                **more,
            ),
            on_record=into(recorder),
            on_fault=lambda *told: heard.append(told) if heard is not None else None,
            witness=witness,
            sources=sources,
        )
        nemesis.start()
        try:
            drive(nemesis)
            wait_for(nemesis.all_healed, "the end of every step")
        finally:  # a thread that waits for the end of the load would keep this process from ending
            nemesis.abort()
    seal(RunFolder(tmp_path))
    (path,) = (tmp_path / "evidence" / "faults").glob("*.parquet")
    return sorted(pq.read_table(path).to_pylist(), key=lambda row: str(row["id"])), nodes


def play_until(nemesis: Nemesis, what: Callable[[], bool]) -> None:
    """Waits for a condition. What a step raises ends the wait, and so does the end of all of them."""
    wait_for(lambda: what() or nemesis.all_healed(), "what the steps lead to")
    assert what()
