"""log-dir-failure proves by the broker's own report that a directory failed, and that it is back."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from fakes.cluster import FakeAdmin, FakeNode, fake_scene
from kaput.cluster.properties import NodeLayout
from kaput.faults.log_dir_failure import LogDirFailure


@dataclass
class Broker(FakeNode):
    """With two directories. It notices a lost one unless it is `blind`; then it needs a restart."""

    folder: Path = Path()
    blind: bool = False
    forgets: bool = False  # its restart does not help
    noticed: bool = field(default=False, init=False)

    @property
    def layout(self) -> NodeLayout:
        return NodeLayout(self.id, "broker", "127.0.0.1", 1, None, self.folder, log_dirs=2)

    def start(self) -> None:
        super().start()
        self.noticed = self.noticed and self.forgets


class Reports(FakeAdmin):
    """What brokers say of their directories."""

    def __init__(self, broker: Broker) -> None:
        super().__init__()
        self.broker = broker

    def log_dirs(self, broker: int) -> dict[str, bool]:
        first, second = self.broker.layout.all_data
        self.broker.noticed |= not second.exists() and not self.broker.blind
        return {str(first): False, str(second): self.broker.noticed} if self.broker.running else {}


def made(folder: Path, **switches: bool) -> tuple[LogDirFailure, Broker]:
    broker = Broker(1, folder=folder, **switches)  # type: ignore[arg-type]
    for place in broker.layout.all_data:
        (place / "orders-0").mkdir(parents=True)
        (place / "old-1.3f2a-delete").mkdir()
    admin: Any = Reports(broker)
    return LogDirFailure(fake_scene("log-dir-failure", broker, admin=admin)), broker


def test_directory_is_lost_and_comes_back_with_a_restart(tmp_path: Path) -> None:
    """With what was in it; the first one is untouched."""
    fault, broker = made(tmp_path)
    effect = fault.inject([broker])  # type: ignore[list-item]
    assert effect.confirmed and not broker.layout.second_data.exists()
    assert "lost data-2, with 1 partition; reported as failed after" in effect.proof
    healed, after = fault.heal([broker], effect)  # type: ignore[list-item]
    assert healed is not None and after.confirmed and broker.running, after.proof
    assert (
        after.proof.endswith("reported as intact again") and (broker.layout.second_data / "orders-0").is_dir()
    )


@pytest.mark.parametrize("switch", ["blind", "forgets"])
def test_failure_that_no_broker_reports_is_not_proven(tmp_path: Path, switch: str) -> None:
    """Nor a heal that it does not report; the directory is back either way."""
    fault, broker = made(tmp_path, **{switch: True})
    effect = fault.inject([broker])  # type: ignore[list-item]
    assert effect.confirmed == (switch == "forgets")
    healed, after = fault.heal([broker], effect)  # type: ignore[list-item]
    assert not after.confirmed and (healed is None) == (switch == "forgets"), after.proof
    assert broker.layout.second_data.is_dir() and not broker.layout.lost_data.exists()


def test_stopped_broker_is_left_alone(tmp_path: Path) -> None:
    """Its directory stays where it is."""
    fault, broker = made(tmp_path)
    broker.running = False
    effect = fault.inject([broker])  # type: ignore[list-item]
    assert (effect.effective_ns, effect.proof) == (None, "no target was running")
    assert fault.heal([broker], effect)[0] is not None and broker.layout.second_data.is_dir()  # type: ignore[list-item]
