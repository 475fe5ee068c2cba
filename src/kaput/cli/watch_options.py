"""The options of `kaput watch`, and checks of their combinations."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from kaput.analysis.streaming.numbering import Numbering
    from kaput.watch.audits import AuditOptions

For = Annotated[
    str | None,
    typer.Option("--for", metavar="TIME", help="Stop after this time: 10m, 1h (default: on Ctrl-C)."),
]
Rate = Annotated[float, typer.Option(min=0.1, metavar="N", help="Messages per second to each broker.")]
Topics = Annotated[
    list[str] | None,
    typer.Option(metavar="TOPIC", help="Watch your own topic instead of sending messages. Repeatable."),
]
Pattern = Annotated[
    str | None,
    typer.Option(
        metavar="REGEX",
        help="Where the numbers are in your messages: (?P<number>[0-9]+), optionally (?P<producer>...).",
    ),
]
Header = Annotated[str | None, typer.Option(metavar="NAME", help="Header with the message numbers.")]
JsonField = Annotated[str | None, typer.Option(metavar="NAME", help="JSON field with the message numbers.")]
ProducerName = Annotated[
    str | None, typer.Option(metavar="NAME", help="Header or field that names the producer.")
]
FromStart = Annotated[bool, typer.Option("--from-start", help="With --topic: also read existing messages.")]
Audit = Annotated[
    bool, typer.Option("--audit", help="With --topic: compare counts; messages need no numbers.")
]
Group = Annotated[
    list[str] | None,
    typer.Option(
        metavar="GROUP", help="With --audit: count what this group has committed as consumed. Repeatable."
    ),
]
Mirror = Annotated[
    str | None,
    typer.Option(metavar="HOST:PORT,...", help="With --audit: a second cluster with copies of the topics."),
]
MirrorPrefix = Annotated[
    str,
    typer.Option(metavar="PREFIX", help="Prefix of the copies' names, such as dc1. (default: none)."),
]
MirrorConfig = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Client properties file for the second cluster.")
]
FindingsTopicName = Annotated[
    str | None,
    typer.Option(
        "--findings-topic",
        metavar="TOPIC",
        help="Also write findings to this topic, such as kaput.findings.",
    ),
]
Master = Annotated[
    str | None, typer.Option(metavar="URL", help="Spark master of the streaming job (default: local).")
]
SparkConf = Annotated[
    list[str] | None, typer.Option("--spark-conf", metavar="KEY=VALUE", help="A Spark setting. Repeatable.")
]
Resume = Annotated[Path | None, typer.Option(metavar="RUN_DIR", help="Continue a killed watch.")]
AlertRules = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Alert rules file (default: the built-in rules except low-send-rate)."),
]
Notify = Annotated[
    list[str] | None,
    typer.Option(
        metavar="CHANNEL", help="Also send alerts to json:FILE, webhook:URL or alertmanager:URL. Repeatable."
    ),
]
JsonLines = Annotated[bool, typer.Option("--json", help="Print a line of JSON every 10 s, and at the end.")]


def numbering_of(
    topics: list[str],
    pattern: str | None,
    header: str | None,
    field: str | None,
    producer: str | None,
    audit: bool = False,
) -> Numbering | None:
    """How the user's messages are numbered; None: kaput sends its own, or only counts are compared. Raises
    UsageError.
    """
    from kaput.analysis.streaming.numbering import Kind, Numbering
    from kaput.errors import UsageError

    kinds: dict[Kind, str | None] = {"pattern": pattern, "header": header, "json": field}
    given = {kind: number for kind, number in kinds.items() if number is not None}
    if len(given) + audit > 1 or bool(given or audit) != bool(topics):
        ways = "--pattern, --header, --json-field and --audit"
        raise UsageError(f"--topic requires one of {ways}, and they require --topic")
    for kind, number in given.items():
        if producer is not None and kind == "pattern":
            raise UsageError(
                "--producer is for --header and --json-field; in a pattern, use the group `producer`"
            )
        return Numbering(kind, None, number, producer)
    return None


def audit_of(
    audit: bool, groups: list[str], mirror: str | None, prefix: str, config: Path | None
) -> AuditOptions | None:
    """The options of an audit; None without --audit. Raises UsageError for options that need it."""
    from kaput.errors import UsageError
    from kaput.watch.audits import AuditOptions

    if not audit and (groups or mirror is not None):
        raise UsageError("--group and --mirror require --audit")
    if mirror is None and (prefix or config is not None):
        raise UsageError("--mirror-prefix and --mirror-config require --mirror")
    return AuditOptions(groups, mirror, prefix, config) if audit else None


def check_together(
    numbering: Numbering | None, topics: list[str], from_start: bool, resume: Path | None
) -> None:
    """Raises UsageError for incompatible options."""
    from kaput.errors import UsageError

    if numbering is not None:
        numbering.check()
    if from_start and not topics:
        raise UsageError("--from-start requires --topic")
    if resume is not None and topics:
        raise UsageError("--resume continues a watch that sends kaput's own messages; leave out --topic")
