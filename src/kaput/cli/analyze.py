"""`kaput analyze`: judges recorded evidence again, from whatever wrote it."""

from __future__ import annotations

import re
import tempfile
from contextlib import ExitStack
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from kaput.analysis.background import Background
    from kaput.evidence.folder import RunFolder
    from kaput.evidence.reading import Evidence

    Found = tuple[RunFolder, Evidence | None]


class Only(Enum):
    """Parts of the analysis that may be had alone."""

    FATES = "fates"


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
    scratch: Annotated[
        Path | None,
        typer.Option(
            help="Where evidence from a URL is brought while it is judged; on a cluster a path that all "
            "workers open. Default: the system's temporary directory."
        ),
    ] = None,
) -> None:
    """Judge recorded evidence with PySpark, and write RUN_DIR/findings.json. Needs no Kafka.

    Example: kaput analyze runs/20260101T120000-noop-1a2b3c --json

    Example: kaput analyze runs/20260101T120000-noop-1a2b3c --only fates
    """
    from kaput.analysis.background import Background
    from kaput.cluster.java import find_java
    from kaput.evidence.folder import RunFolder
    from kaput.processes.signals import interrupts

    # Mistakes in the evidence are said before Spark is waited for.
    here = {text: _checked(RunFolder(Path(text))) for text in run_dir if not _is_url(text)}
    find_java()
    with interrupts(), ExitStack() as stack:
        spark = stack.enter_context(Background(master, _settings(conf or [])))
        spark.begin()
        found = [here[text] if text in here else _brought(text, spark, scratch, stack) for text in run_dir]
        if only is Only.FATES:
            _fates(found, spark, json)
        else:
            _judge(found, spark, json, ledger=not no_ledger)


def _is_url(text: str) -> bool:
    return re.match(r"[A-Za-z][A-Za-z0-9+.-]*:/", text) is not None


def _checked(folder: RunFolder) -> Found:
    """A folder and its evidence; none yet where a crash has left work to do first."""
    from kaput.evidence.reading import check
    from kaput.evidence.sealing import needs_sealing

    folder.read_manifest()
    return folder, None if needs_sealing(folder) else check(folder)


def _brought(url: str, spark: Background, scratch: Path | None, stack: ExitStack) -> Found:
    """Evidence that only Spark's file systems reach, in a directory that goes with the program."""
    session = spark.session()
    from kaput.analysis.elsewhere import bring, check_scratch
    from kaput.processes.ownership import Owner

    check_scratch(session, scratch)
    directory = Path(tempfile.mkdtemp(prefix="kaput-brought-", dir=scratch))
    stack.enter_context(Owner()).own_path(directory)
    return _checked(bring(session, url, directory))


def _judge(found: list[Found], spark: Background, json: bool, ledger: bool) -> None:
    from kaput.cli.judging import judge_folder
    from kaput.cli.showing import show

    results = [(folder, judge_folder(folder, spark.session, evidence, ledger)) for folder, evidence in found]
    for folder, _ in results:
        if folder.origin is not None:
            from kaput.analysis.elsewhere import take_back

            take_back(spark.session(), folder)
    show(results, json)


def _fates(found: list[Found], spark: Background, json: bool) -> None:
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
