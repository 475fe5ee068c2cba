"""Options of every watch, and the spec of its streaming job made from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from kaput.analysis.streaming.job import AuditSpec, WatchJobSpec
from kaput.analysis.streaming.numbering import Numbering
from kaput.cluster.access import OPEN, Access
from kaput.cluster.admin.client import check_access
from kaput.cluster.existing_cluster import ExistingCluster


@dataclass(frozen=True)
class WatchOptions:
    """Options of a watch. `servers`, `command_config`: of the cluster; `rate`: messages a second to each
    partition; `jars`: Spark's Kafka source; `master`, `conf`: of Spark.
    """

    servers: str
    command_config: Path | None
    runs: Path
    rate: float
    jars: Sequence[Path]
    master: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)

    @property
    def access(self) -> Access:
        """The security settings. Raises UsageError."""
        return OPEN if self.command_config is None else Access.read(self.command_config)

    def cluster(self) -> ExistingCluster:
        """Connects to the cluster. Raises UsageError, LabError."""
        access = self.access
        check_access(self.servers, access)
        cluster = ExistingCluster(self.servers, access)
        cluster.refresh()
        return cluster

    def job(
        self,
        folder: Path,
        topics: Sequence[str],
        numbering: Numbering | None,
        *,
        groups: Sequence[str] = (),
        start: str = "earliest",
        audit: AuditSpec | None = None,
    ) -> WatchJobSpec:
        """The spec of the streaming job of a watch in this run folder. `numbering`: None for an audit."""
        return WatchJobSpec(
            folder=str(folder),
            directory=str(folder / "watch"),
            numbering=None if numbering is None else asdict(numbering),
            audit=audit,
            bootstrap_servers=self.servers,
            topics=topics,
            groups=groups,
            jars=[str(jar) for jar in self.jars],
            start=start,
            access=None if self.command_config is None else str(self.command_config.resolve()),
            master=self.master,
            conf=dict(self.conf),
        )
