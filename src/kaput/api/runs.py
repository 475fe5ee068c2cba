"""A run in Python: its folder, its findings, and its tables."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kaput.api.findings import Findings, load
from kaput.errors import UsageError

if TYPE_CHECKING:
    from kaput.api.tables import RunTable
    from kaput.scenario.model import Scenario


class Run:
    """A judged run folder, as returned by kaput.run; `Run(folder)` opens an existing one."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)

    @cached_property
    def findings(self) -> Findings:
        """The findings. Raises UsageError if the run is not judged."""
        return load(self.folder)

    @cached_property
    def scenario(self) -> Scenario:
        """The resolved scenario. Raises UsageError."""
        from kaput.evidence.folder import RunFolder
        from kaput.scenario.loader import read_resolved

        return read_resolved(RunFolder(self.folder).scenario_path)

    def evidence(self, table: str, spark: Any = None) -> RunTable:
        """A table of the evidence: sends, log, deliveries, ... (docs/RUN_FOLDER.md).

        `spark`: the SparkSession to use. Raises UsageError, EvidenceError.
        """
        from kaput.api.tables import RunTable
        from kaput.evidence.folder import RunFolder
        from kaput.evidence.reading import check
        from kaput.evidence.schemas import TABLES
        from kaput.scenario.nearest import hint

        if table not in TABLES:
            raise UsageError(f"no table {table}; {hint(table, TABLES)}")
        found = check(RunFolder(self.folder)).tables[table]
        return RunTable(table, found.files, found.table.schema, spark)

    def ledger(self, spark: Any = None) -> RunTable:
        """The fate of every message: a row for each stretch of messages with the same fate."""
        return self.analysis("ledger", spark)

    def analysis(self, table: str, spark: Any = None) -> RunTable:
        """A table of the analysis: ledger, lost, windows, rates, ... Raises UsageError."""
        from kaput.api.tables import RunTable
        from kaput.evidence.folder import RunFolder
        from kaput.scenario.nearest import hint

        tables = RunFolder(self.folder).analysis
        names = sorted(path.name for path in tables.iterdir() if path.is_dir()) if tables.is_dir() else []
        if table not in names:
            known = hint(table, names) if names else "run kaput.analyze first"
            raise UsageError(f"{tables}: no table {table}; {known}")
        return RunTable(table, sorted((tables / table).rglob("*.parquet")), None, spark)

    def __repr__(self) -> str:
        return f"<kaput.Run {self.folder}>"

    def _repr_html_(self) -> str:
        return self.findings._repr_html_()
