"""A table of a run as a Spark or Polars DataFrame. Neither library is loaded before it is needed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
        """The Spark DataFrame itself."""
        if self._frame is None:
            from kaput.analysis.spark.program import context_of, frame

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
