"""`kaput analyze`: judges recorded evidence again, from whatever wrote it."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from kaput.analysis.background import Background
    from kaput.evidence.folder import RunFolder
    from kaput.evidence.reading import Evidence


class Only(Enum):
    """Parts of the analysis that may be had alone."""

    FATES = "fates"


def analyze_command(
    run_dir: Annotated[list[Path], typer.Argument(help="Run folders (kaput.evidence/1).")],
    master: Annotated[
        str | None,
        typer.Option(help="Spark master, as spark://HOST:7077. Default: SPARK_CONF_DIR's, else local[*]."),
    ] = None,
    conf: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="A Spark setting: spark.executor.memory=4g")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print findings.json on stdout.")] = False,
    only: Annotated[
        Only | None,
        typer.Option(
            help="fates: count how many messages of each outcome are stored, and delivered to each group, "
            "0, 1 or n times, in a fraction of the time. Judges nothing, writes nothing, exit status 0."
        ),
    ] = None,
    no_ledger: Annotated[
        bool, typer.Option("--no-ledger", help="Leave out analysis/ledger, the table with a row a message.")
    ] = False,
) -> None:
    """Judge recorded evidence with PySpark, and write RUN_DIR/findings.json. Needs no Kafka.

    Example: kaput analyze runs/20260101T120000-noop-1a2b3c --json

    Example: kaput analyze runs/20260101T120000-noop-1a2b3c --only fates
    """
    from kaput.analysis.background import Background
    from kaput.cluster.java import find_java
    from kaput.evidence.folder import RunFolder
    from kaput.evidence.reading import check
    from kaput.evidence.sealing import needs_sealing
    from kaput.processes.signals import interrupts

    folders = [RunFolder(path) for path in run_dir]
    # Mistakes in the evidence are said before Spark is waited for.
    for folder in folders:
        folder.read_manifest()
    checked = [None if needs_sealing(folder) else check(folder) for folder in folders]
    find_java()
    with interrupts(), Background(master, _settings(conf or [])) as spark:
        spark.begin()
        found = list(zip(folders, checked, strict=True))
        if only is Only.FATES:
            _fates(found, spark, json)
        else:
            _judge(found, spark, json, ledger=not no_ledger)


def _judge(
    found: list[tuple[RunFolder, Evidence | None]], spark: Background, json: bool, ledger: bool
) -> None:
    from kaput.cli.judging import judge_folder
    from kaput.cli.showing import show

    results = [(folder, judge_folder(folder, spark.session, evidence, ledger)) for folder, evidence in found]
    show(results, json)


def _fates(found: list[tuple[RunFolder, Evidence | None]], spark: Background, json: bool) -> None:
    from kaput.cli.judging import fates_of
    from kaput.cli.showing import show_fates

    show_fates([fates_of(folder, spark.session, evidence) for folder, evidence in found], json)


def _settings(given: list[str]) -> dict[str, str]:
    """Spark's settings by name. Raises UsageError."""
    from kaput.errors import UsageError

    settings = {}
    for setting in given:
        name, equals, value = setting.partition("=")
        if not (name and equals):
            raise UsageError(f"--conf {setting}: a setting has the form KEY=VALUE")
        settings[name.strip()] = value.strip()
    return settings
