"""`kaput analyze`: judges recorded evidence again, from whatever wrote it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


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
) -> None:
    """Judge recorded evidence with PySpark, and write RUN_DIR/findings.json. Needs no Kafka.

    Example: kaput analyze runs/20260101T120000-noop-1a2b3c --json
    """
    from kaput.analysis.background import Background
    from kaput.cli.judging import judge_folder
    from kaput.cli.showing import show
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
        results = [
            (folder, judge_folder(folder, spark.session, evidence))
            for folder, evidence in zip(folders, checked, strict=True)
        ]
        show(results, json)


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
