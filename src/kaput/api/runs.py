"""A run in Python: its folder, its findings, and its tables, as Spark or Polars DataFrames. Neither library
is loaded before it is needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING, Any

from pydantic import PrivateAttr

from kaput.errors import UsageError
from kaput.evidence import findings as document
from kaput.evidence.findings_file import read_findings
from kaput.evidence.folder import RunFolder
from kaput.scenario.nearest import hint

if TYPE_CHECKING:
    from kaput.scenario.model import Scenario


_REPR_CHARS = 150


class Findings(document.Findings):
    """The fates of all messages of a run, and the verdict. `str()` returns the report as text."""

    _folder: Path = PrivateAttr()

    @classmethod
    def of(cls, found: document.Findings, folder: Path) -> Findings:
        """The same findings, of this run folder."""
        made = cls(**{name: getattr(found, name) for name in document.Findings.model_fields})
        made._folder = folder
        return made

    @property
    def folder(self) -> Path:
        return self._folder

    def __str__(self) -> str:
        from kaput.report.run_report import to_text

        return to_text(self, self._folder).plain

    def __repr__(self) -> str:
        from kaput.report.sentences import verdict_sentence

        return f"<kaput.Findings of {self.run.scenario}: {shorten(verdict_sentence(self), _REPR_CHARS)}>"

    def _repr_html_(self) -> str:
        from kaput.report.notebook import to_notebook

        return to_notebook(RunFolder(self._folder), self)


def load(folder: str | Path) -> Findings:
    """Reads findings.json of a judged run. Raises UsageError."""
    path = RunFolder(Path(folder))
    return Findings.of(read_findings(path.findings_path), path.path)


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
        from kaput.scenario.loader import read_resolved

        return read_resolved(RunFolder(self.folder).scenario_path)

    def evidence(self, table: str, spark: Any = None) -> RunTable:
        """A table of the evidence: sends, log, deliveries, ... (docs/RUN_FOLDER.md).

        `spark`: the SparkSession to use. Raises UsageError, EvidenceError.
        """
        from kaput.evidence.reading import check
        from kaput.evidence.schemas import TABLES

        if table not in TABLES:
            raise UsageError(f"no table {table}; {hint(table, TABLES)}")
        rows = check(RunFolder(self.folder)).tables[table]
        return RunTable(table, rows.files, rows.table.schema, spark)

    def ledger(self, spark: Any = None) -> RunTable:
        """The fate of every message: a row for each stretch of messages with the same fate."""
        return self.analysis("ledger", spark)

    def analysis(self, table: str, spark: Any = None) -> RunTable:
        """A table of the analysis: ledger, lost, windows, rates, ... Raises UsageError."""
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


if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa
    from pyspark.sql import DataFrame

    _Frame = DataFrame
else:
    _Frame = object

_SHOWN = 20


class RunTable(_Frame):
    """A table of a run folder. It has all methods of a Spark DataFrame; `polars()` needs no Spark."""

    def __init__(self, title: str, files: Sequence[Path], schema: pa.Schema | None, spark: Any) -> None:
        self._title, self._files, self._wanted, self._given = title, list(files), schema, spark
        self._frame: DataFrame | None = None

    def polars(self) -> pl.DataFrame:
        """All rows as a Polars DataFrame, in memory."""
        return self._scanned().collect()

    def to_spark(self) -> DataFrame:
        if self._frame is None:
            from kaput.analysis.spark.engines import context_of, frame

            self._frame = frame(context_of(self._given), self._files, self._wanted)
        return self._frame

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(
                name
            )  # copy, pickle and notebooks look for these, which must not start Spark
        return getattr(self.to_spark(), name)

    def __getitem__(self, item: Any) -> Any:
        return self.to_spark()[item]

    def __repr__(self) -> str:
        return f"<kaput table {self._title}: {', '.join(self._scanned().collect_schema().names())}>"

    def _repr_html_(self) -> str:
        return self._scanned().head(_SHOWN).collect()._repr_html_()

    def _scanned(self) -> pl.LazyFrame:
        import polars as pl

        empty = pl.DataFrame() if self._wanted is None else pl.from_arrow(self._wanted.empty_table())
        assert isinstance(empty, pl.DataFrame)
        if not self._files:
            return empty.lazy()
        found = pl.scan_parquet(self._files)
        names = found.collect_schema().names()
        lacking = [pl.lit(None, kind).alias(name) for name, kind in empty.schema.items() if name not in names]
        return found.with_columns(lacking).select(empty.columns or names)
