"""`kaput analyze`: judges recorded evidence again."""

from __future__ import annotations

import re
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from kaput.api.judging import Scratch, sealed_evidence
from kaput.cli import completion
from kaput.cli.options import Columns, FindingsJson, Page, Reports, SparkConf, TableOptions, columns_of
from kaput.cli.results import (
    Baseline,
    Result,
    ToleranceOption,
    judge_folder,
    keep_report,
    read_baselines,
    result_of,
    show,
)
from kaput.cli.verbs import pairs
from kaput.errors import UsageError
from kaput.scenario.vocabulary import LedgerRows

if TYPE_CHECKING:
    from kaput.analysis.spark.engines import OwnSpark
    from kaput.analysis.spark.in_process import WithoutSpark
    from kaput.evidence.reading import Evidence


_MASTER = r"local|local\[.+\]|local-cluster\[.+\]|yarn|(spark|k8s)://.+"


RunDirs = Annotated[
    list[str],
    Argument(
        metavar="RUN_DIR",
        autocompletion=completion.run_folders,
        help="Run folders: paths, or URLs that Spark can read (s3a://...).",
    ),
]
Master = Annotated[
    str | None,
    Option(
        metavar="URL",
        help="Spark master: spark://HOST:7077, yarn, ... (default: from SPARK_CONF_DIR, else local[*] for "
        "100 million messages and more on a machine with more than four cores; others are judged in kaput's "
        "own process, which is faster).",
    ),
]
LedgerRow = Annotated[
    LedgerRows,
    Option(
        help="One row in analysis/ledger per stretch of messages with the same fate, per message, or no "
        "ledger."
    ),
]
Profile = Annotated[bool, Option("--profile", help="Print what the CPU time was spent on, to stderr.")]
ScratchDirectory = Annotated[
    Path | None,
    Option(
        metavar="DIR",
        help="Directory for temporary copies of evidence from URLs or read-only folders; on a Spark "
        "cluster, a path that all workers share (default: the system's temporary directory).",
    ),
]


def analyze_command(
    run_dir: RunDirs,
    *,
    master: Master = None,
    spark_conf: SparkConf = None,
    json: FindingsJson = False,
    ledger: LedgerRow = "stretches",
    page: Page = True,
    profile: Profile = False,
    baseline: Baseline = None,
    tolerance: ToleranceOption = None,
    columns: Columns = None,
    reports: Reports = False,
    scratch: ScratchDirectory = None,
) -> None:
    """Judge recorded evidence again.

    Writes RUN_DIR/findings.json. Needs no Kafka; PySpark, which needs Java, only for 100 million messages and
    more on a machine with more than four cores, for URLs, and where you choose one (--master, --spark-conf,
    SPARK_CONF_DIR).

    Example: kaput analyze runs/20260101T120000-noop-1a2b3c --json

    Example: kaput analyze runs/20260101T120000-noop-1a2b3c --ledger messages
    """
    from kaput.analysis.spark.engines import engine_for
    from kaput.evidence.folder import RunFolder
    from kaput.processes.signals import interrupts

    settings = pairs("--spark-conf", spark_conf)
    baselines = read_baselines(baseline, tolerance)
    _check_master(master)
    with interrupts(), ExitStack() as stack:
        space = stack.enter_context(Scratch(scratch))
        # Mistakes in the evidence are reported before waiting for Spark.
        local = {text: sealed_evidence(RunFolder(Path(text)), space) for text in run_dir if not _is_url(text)}
        # At a URL, only Spark can tell.
        most = max((evidence.most_rows for evidence in local.values()), default=0)
        known = most if len(local) == len(run_dir) else None
        # Side by side, tasks cannot tell whose CPU time was spent.
        spark = engine_for(known, master, settings, threads=1 if profile else None)
        stack.enter_context(spark)
        folders = [local[text] if text in local else _fetch(text, spark, space) for text in run_dir]
        varied = [key for evidence in folders for key in evidence.manifest.varied]
        printed = TableOptions(columns_of(columns, len(folders) > 1, varied), reports)
        baselines.check(evidence.manifest.scenario for evidence in folders)
        results = _judge(folders, spark, space, ledger, page)
        if profile:
            _print_profile()
        show(results, json, page, baselines, printed)


def _print_profile() -> None:
    """What the tasks of all analyses spent, most first."""
    from kaput.analysis.engine.asking import CPU

    sys.stderr.write(f"CPU seconds of all tasks: {sum(CPU.values()) / 1e9:.2f}\n")
    for (stage, what), ns in CPU.most_common(40):
        sys.stderr.write(f"{ns / 1e9:8.2f}  {stage:<8}  {what}\n")


def _is_url(text: str) -> bool:
    return re.match(r"[A-Za-z][A-Za-z0-9+.-]*:/", text) is not None


def _fetch(url: str, spark: OwnSpark | WithoutSpark, scratch: Scratch) -> Evidence:
    """Copies evidence that only Spark can read into the scratch directory."""
    session = spark.session()
    from kaput.analysis.spark.remote_folders import bring, check_scratch

    check_scratch(session, scratch.where)
    return sealed_evidence(bring(session, url, scratch.directory()), scratch)


def _judge(
    found: list[Evidence], spark: OwnSpark | WithoutSpark, scratch: Scratch, ledger: LedgerRows, page: bool
) -> list[Result]:
    results = [
        result_of(evidence.folder, judge_folder(evidence, spark.session, scratch, ledger))
        for evidence in found
    ]
    for result in results:
        folder = result.folder
        if folder.origin is not None and folder.copy_back_error is None:
            from kaput.analysis.spark.remote_folders import take_back

            if page:
                keep_report(folder, result.findings)
            take_back(spark.session(), folder)
    return results


def _check_master(master: str | None) -> None:
    """Raises UsageError for a master URL that Spark does not accept."""
    if master is not None and not re.fullmatch(_MASTER, master):
        raise UsageError(f"--master {master}: not a Spark master; write local[*], spark://HOST:7077 or yarn")
