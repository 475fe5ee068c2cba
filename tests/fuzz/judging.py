"""Judges one damaged run folder after another, in a process of its own that may be killed at any time.

Reads case numbers from stdin and answers each with a line of JSON: how it ended. What counts as a failure
is whatever is neither findings nor an error that names what it is about.
"""

from __future__ import annotations

import json
import resource
import shutil
import sys
import traceback
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console

from fakes.everything import everything
from fakes.in_process import InProcess
from fakes.spark import shared_context
from fakes.writers import WRITERS, Writer
from fuzz.damage import damage
from kaput.analysis.pipeline import analyse
from kaput.errors import UsageError
from kaput.evidence.folder import RunFolder
from kaput.evidence.reading import check
from kaput.evidence.schemas import TABLES
from kaput.evidence.sealing import needs_sealing, parquet_writer, seal
from kaput.report.comparison import Entry
from kaput.report.comparison_report import to_html as compared
from kaput.report.junit import to_junit
from kaput.report.run_report import scenario_of, to_html, to_markdown, to_text

_MEMORY = 6 << 30  # a folder of a few KB that wants more is a failure


def _as_sealed(table: pa.Table, directory: Path) -> None:
    with parquet_writer(TABLES[directory.name], directory / "part-0.parquet") as writer:
        writer.write_table(table)


def _bare(table: pa.Table, directory: Path) -> None:
    file = directory / "part-0.parquet"
    pq.write_table(table, file, compression="none", use_dictionary=False, row_group_size=4)


def _packed(table: pa.Table, directory: Path) -> None:
    pq.write_table(table, directory / "part-0.parquet", compression="none")


# Where pages are not compressed, a changed byte is a changed value more often than a page that can't be read.
_BY: dict[str, Writer] = {
    "as sealed": _as_sealed,
    "bare": _bare,
    "packed": _packed,
    **{name: WRITERS[name] for name in ("Polars, Enum", "DuckDB, ENUM, V2", "pyarrow, each file another")},
}


class Cases:
    """Damaged folders by number. Each is made again from its number alone."""

    def __init__(self, seed: int, directory: Path) -> None:
        self.seed, self.directory = seed, directory
        self.history = everything()
        self.plain = self.history.write(directory / "plain")

    def make(self, number: int) -> tuple[RunFolder, list[str]]:
        """The folder of a case, and what was done to it."""
        random = Random(f"{self.seed}/{number}")
        path = self.directory / f"case-{number}"
        shutil.copytree(self._sound(random.choice(sorted(_BY))), path)
        return RunFolder(path), damage(path, random)

    def _sound(self, by: str) -> Path:
        """The folder as one writer writes it; written once."""
        path = self.directory / by
        if not path.exists():
            for name, rows in self.history.rows.items():
                directory = path / "evidence" / name
                directory.mkdir(parents=True)
                _BY[by](pa.Table.from_pylist(rows, schema=TABLES[name].schema), directory)
            for file in (self.plain.manifest_path, self.plain.scenario_path):
                shutil.copy(file, path)
        return path


def judged(folder: RunFolder, spark: Any) -> str:
    """What `kaput analyze` would do with the folder: a verdict, or `refused`. Raises what must not be."""
    try:
        manifest = folder.read_manifest()
        if needs_sealing(folder):
            folder.write_manifest(manifest.model_copy(update={"troubles": manifest.troubles + seal(folder)}))
        evidence = check(folder)
        findings = analyse(evidence, spark)
    except UsageError as error:
        if str(folder.path) not in str(error) and not str(error).startswith("table "):
            raise
        return "refused"
    console = Console(file=open("/dev/null", "w"), highlight=False)  # noqa: PTH123, SIM115
    console.print(to_text(findings, folder.title))
    entries = [Entry(run, run, "history", {}, findings) for run in ("a", "b")]
    for document in (
        findings.to_json(),
        to_junit(findings),
        to_markdown(findings, scenario_of(folder)),
        to_html(folder, findings),
        compared([(folder, findings)] * 2, entries),
    ):
        document.encode()
    return findings.verdict


def main() -> None:
    """`python -m fuzz.judging SEED DIRECTORY [spark]`: with the real Spark, or without."""
    cases, spark = Cases(int(sys.argv[1]), Path(sys.argv[2])), InProcess()
    if sys.argv[3:] == ["spark"]:
        spark = shared_context()
    else:
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    answers, sys.stdout = sys.stdout, sys.stderr
    for line in sys.stdin:
        folder, done = cases.make(int(line))
        answer = {"case": int(line), "done": done}
        try:
            answer["ended"] = judged(folder, spark)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is what is looked for
            answer["ended"], answer["trace"] = type(error).__name__, traceback.format_exc()
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
