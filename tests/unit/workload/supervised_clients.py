"""The clients of a scenario and what they have recorded, for the tests of each kind of them."""

from __future__ import annotations

import uuid
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds

from kaput.evidence.folder import RunFolder
from kaput.processes.ownership import Owner
from kaput.scenario.model import Scenario
from kaput.workload.supervision.supervisor import Supervisor

RUN = uuid.UUID(int=3)


class SupervisedClients:
    """Makes supervisors in a run folder of their own, and reads what they leave there once it is sealed."""

    def __init__(self, owner: Owner, path: Path) -> None:
        self._owner, self._path = owner, path
        (path / "run").mkdir()
        self.folder = RunFolder(path / "run")
        self.thresholds: list[int] = []

    def supervisor_of(
        self, of: Scenario, servers: str = "nobody:1", stores: dict[str, str] | None = None
    ) -> Supervisor:
        """A supervisor for that scenario, which reports when 50 attempts are made."""
        heard = lambda n, at_ns: self.thresholds.append(n)  # noqa: E731
        return Supervisor(self._owner, of, self.folder, RUN, servers, [50], heard, stores=stores)

    def rows(self, table: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = ds.dataset(self.folder.table(table)).to_table().to_pylist()
        return found

    def outcomes(self) -> dict[str, int]:
        """How many sends had which outcome."""
        return dict(Counter(row["outcome"] for row in self.rows("sends")))
