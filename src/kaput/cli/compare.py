"""`kaput compare`: checks whether one cluster is a complete mirror of another."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from typer import Argument, Option

from kaput.api.judging import Scratch
from kaput.cli.options import Json, cluster_and_mirror, milliseconds, write_text
from kaput.cli.verbs import print_json
from kaput.errors import UsageError

if TYPE_CHECKING:
    from pyspark import SparkContext


PolicyName = Literal["identity", "default"]
Topics = Annotated[
    list[str] | None,
    Option(metavar="NAME", help="Topic, or a pattern like 'orders-*' (default: all). Repeatable."),
]
Groups = Annotated[
    list[str] | None, Option(metavar="NAME", help="Consumer group, or a pattern (default: all). Repeatable.")
]
PolicyOption = Annotated[
    PolicyName | None,
    Option(
        help="Topic names in the target: the same (identity) or SOURCE.TOPIC (default); if not given, "
        "whichever matches more topics."
    ),
]
Wait = Annotated[
    str | None,
    Option(
        metavar="TIME",
        help="Wait up to this long for the mirror to catch up; records missing after that are lost.",
    ),
]
SourceConfig = Annotated[
    Path | None, Option(metavar="FILE", help="Client properties file for the source (Java format).")
]
TargetConfig = Annotated[
    Path | None, Option(metavar="FILE", help="Client properties file for the target (Java format).")
]


def compare_command(
    source: Annotated[
        str, Argument(metavar="SOURCE", help="HOST:PORT,... or the name of a cluster started by kaput up.")
    ],
    target: Annotated[str, Argument(metavar="TARGET", help="Its mirror, named the same way.")],
    *,
    topic: Topics = None,
    group: Groups = None,
    policy: PolicyOption = None,
    wait: Wait = None,
    command_config: SourceConfig = None,
    target_command_config: TargetConfig = None,
    html: Annotated[
        Path | None, Option(metavar="FILE", help="Also write the result to this HTML page.")
    ] = None,
    rows: Annotated[
        Path | None,
        Option(metavar="DIR", help="Keep the records behind each count in this directory, as Parquet."),
    ] = None,
    all_: Annotated[bool, Option("--all", help="Also show what is identical.")] = False,
    json: Json = False,
) -> int:
    """Compare a cluster with its mirror.

    Every record, setting, access rule, quota and group position is identical, differs by design, or is lost.
    Exit status 1 if anything is lost.

    Example: kaput compare dc1 dc2 --topic orders --wait 30s

    Example: kaput compare a1:9092,a2:9092 b1:9092 --html mirror.html
    """

    from kaput.analysis.spark.engines import engine_for
    from kaput.cli.progress import CountProgress
    from kaput.compare.answer import document
    from kaput.compare.comparing import ClusterComparison, ComparisonRequest
    from kaput.console import Console
    from kaput.processes.signals import interrupts
    from kaput.report.render.terminal import render

    clusters = cluster_and_mirror(source, command_config, target, target_command_config)
    request = ComparisonRequest(
        *clusters,
        topic or [],
        group or [],
        policy,
        None if wait is None else milliseconds("--wait", wait) / 1000,
    )
    with interrupts(), ExitStack() as stack:
        folder = stack.enter_context(Scratch()).directory() if rows is None else _empty(rows)
        bar = stack.enter_context(CountProgress(f"{source} and {target}", late=True))

        def session(records: int) -> SparkContext:
            engine = engine_for(records)
            stack.enter_context(engine)
            return engine.session()

        answer = ClusterComparison(request, folder, session, bar.step).run()
    if html is not None:
        from kaput.report.render.html import render as html_of

        write_text("--html", html, html_of(document(answer, every=True)))
    if json:
        print_json(answer.as_json())
    else:
        Console(soft_wrap=True).print(render(document(answer, all_)), end="")
    return 1 if answer.status == "lost" else 0


def _empty(folder: Path) -> Path:
    """Raises UsageError for a directory that is not empty."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"--rows {folder}: choose a new or empty directory")
    folder.mkdir(parents=True, exist_ok=True)
    return folder.resolve()
