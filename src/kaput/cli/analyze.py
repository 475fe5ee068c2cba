"""`kaput analyze`: judges recorded evidence again, from whatever wrote it."""

from __future__ import annotations

import re
from contextlib import ExitStack
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from kaput.analysis.spark.background import Background
    from kaput.api.scratch import Scratch
    from kaput.cli.series import Result
    from kaput.evidence.folder import LedgerRows
    from kaput.evidence.reading import Evidence


_MASTER = r"local|local\[.+\]|local-cluster\[.+\]|yarn|(spark|k8s)://.+"


class Ledger(Enum):
    """What analysis/ledger has rows of."""

    STRETCHES = "stretches"
    MESSAGES = "messages"
    NONE = "none"


def analyze_command(
    run_dir: Annotated[
        list[str],
        typer.Argument(help="Run folders (kaput.evidence/1): paths, or URLs that Spark reads (s3a://...)."),
    ],
    master: Annotated[
        str | None,
        typer.Option(help="Spark master, as spark://HOST:7077. Default: SPARK_CONF_DIR's, else local[*]."),
    ] = None,
    conf: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="A Spark setting: spark.executor.memory=4g")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print findings.json on stdout.")] = False,
    ledger: Annotated[
        Ledger,
        typer.Option(
            help="What analysis/ledger has a row for: each stretch of messages of one producer with the same "
            "fate, or each message, or nothing."
        ),
    ] = Ledger.STRETCHES,
    no_ledger: Annotated[bool, typer.Option("--no-ledger", help="The same as --ledger none.")] = False,
    page: Annotated[
        bool,
        typer.Option("--page/--no-page", help="Write report.html after the verdict."),
    ] = True,
    scratch: Annotated[
        Path | None,
        typer.Option(
            help="Where evidence is put that comes from a URL, or from a folder that cannot be written to, "
            "while it is judged; on a cluster a path that all workers open. Default: the system's temporary "
            "directory."
        ),
    ] = None,
) -> None:
    """Judge recorded evidence with PySpark, and write RUN_DIR/findings.json. Needs no Kafka.

    Example: kaput analyze runs/20260101T120000-noop-1a2b3c --json

    Example: kaput analyze runs/20260101T120000-noop-1a2b3c --ledger messages
    """
    from kaput.analysis.spark.background import Background
    from kaput.api.scratch import Scratch
    from kaput.api.sealed import sealed_evidence
    from kaput.cli.showing import show
    from kaput.evidence.folder import RunFolder
    from kaput.java import find_java
    from kaput.processes.signals import interrupts

    settings = _settings(conf or [])
    _check_master(master)
    with interrupts(), ExitStack() as stack:
        space = stack.enter_context(Scratch(scratch))
        # Mistakes in the evidence are said before Spark is waited for.
        here = {text: sealed_evidence(RunFolder(Path(text)), space) for text in run_dir if not _is_url(text)}
        find_java()
        spark = stack.enter_context(Background(master, settings))
        spark.begin()
        found = [here[text] if text in here else _brought(text, spark, space) for text in run_dir]
        results = _judge(found, spark, space, "none" if no_ledger else ledger.value, page)
        show(results, json, page)


def _is_url(text: str) -> bool:
    return re.match(r"[A-Za-z][A-Za-z0-9+.-]*:/", text) is not None


def _brought(url: str, spark: Background, scratch: Scratch) -> Evidence:
    """Evidence that only Spark's file systems reach, in a directory that goes with the program."""
    session = spark.session()
    from kaput.analysis.spark.elsewhere import bring, check_scratch
    from kaput.api.sealed import sealed_evidence

    check_scratch(session, scratch.where)
    return sealed_evidence(bring(session, url, scratch.directory()), scratch)


def _judge(
    found: list[Evidence], spark: Background, scratch: Scratch, ledger: LedgerRows, page: bool
) -> list[Result]:
    from kaput.cli.judging import judge_folder, keep_report
    from kaput.cli.showing import result_of

    results = [
        result_of(evidence.folder, judge_folder(evidence, spark.session, scratch, ledger))
        for evidence in found
    ]
    for result in results:
        folder = result.folder
        if folder.origin is not None and folder.unkept is None:
            from kaput.analysis.spark.elsewhere import take_back

            if page:
                keep_report(folder, result.findings)
            take_back(spark.session(), folder)
    return results


def _check_master(master: str | None) -> None:
    """Raises UsageError for what no Spark takes for a master."""
    from kaput.errors import UsageError

    if master is not None and not re.fullmatch(_MASTER, master):
        raise UsageError(f"--master {master}: no Spark master; write local[*], spark://HOST:7077 or yarn")


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
