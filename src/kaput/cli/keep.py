"""`kaput keep`: lists, exports, replays and deletes the messages in kaput.keep's stores."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from kaput.cli.options import (
    ClientSettings,
    ClusterName,
    CommandConfig,
    Json,
    Servers,
    access_of,
    confirmed,
    milliseconds,
    servers_of,
)
from kaput.cli.verbs import Verb, group, pairs, print_json
from kaput.core import plural
from kaput.errors import LabError

if TYPE_CHECKING:
    from kaput.clients.keep import MessageStore, Replayed

app = group(
    "Resend, list, export or delete messages Kafka did not take.\n\n"
    "STORE is a path, or a name such as sqlite:FILE, log:DIRECTORY, mongodb://HOST/DATABASE.COLLECTION or "
    "opensearch+https://HOST:PORT/INDEX (docs/KEEP.md has all of them).\n\n"
    "Example: kaput keep replay kept.db --bootstrap-servers localhost:9092"
)
StoreName = Annotated[str, Argument(metavar="STORE", help="Path or name of the store.")]
Topic = Annotated[str | None, Option(metavar="NAME", help="Only messages for this topic.")]


@app.command("replay", cls=Verb)
def replay_command(
    store: StoreName,
    *,
    topic: Topic = None,
    rate: Annotated[
        float | None, Option(min=0.001, metavar="N", help="Maximum number of messages per second.")
    ] = None,
    dry_run: Annotated[bool, Option("--dry-run", help="Show what would be sent and change nothing.")] = False,
    at_least_once: Annotated[
        bool,
        Option(
            "--at-least-once", help="Do not use transactions: a killed replay may send some messages twice."
        ),
    ] = False,
    include_in_flight: Annotated[
        bool,
        Option(
            "--include-in-flight",
            help="Also send spooled messages that are still in flight; only if their producer has ended.",
        ),
    ] = False,
    client_setting: ClientSettings = None,
    bootstrap_servers: Servers = None,
    cluster: ClusterName = None,
    command_config: CommandConfig = None,
    json: Json = False,
) -> None:
    """Send the messages in a store, each once and in order.

    A message is removed when it is acknowledged. A killed replay continues where it stopped; consumers
    that read committed records see each message once. Exit status 0: nothing is left to send;
    4: messages are left, or Kafka or the store failed.

    Example: kaput keep replay kept.db --bootstrap-servers HOST:9092
    """
    from kaput.cli.progress import CountProgress
    from kaput.clients import keep
    from kaput.clients.keep.store import count

    opened = keep.open_store(store)
    if dry_run:
        _print_dry_run(opened, topic, include_in_flight, json)
        return
    access = access_of(bootstrap_servers, cluster, command_config)
    settings = {
        "bootstrap.servers": servers_of(bootstrap_servers, cluster),
        "log_level": 0,
        **access.librdkafka(),
        **pairs("--client-setting", client_setting),
    }
    total = count(opened, topic)
    with CountProgress(f"replay of {opened.name}") as bar:
        done = keep.replay(
            opened, settings, topic=topic, rate=rate, exactly_once=not at_least_once,
            include_in_flight=include_in_flight,
            tell=lambda done: bar.tell(done.delivered, max(total, done.delivered)),
        )  # fmt: skip
    if json:
        print_json({"store": opened.name, **asdict(done)})
    else:
        typer.echo(f"{opened.name}: {_sentence(done)}")
    if done.left:
        raise LabError(f"{opened.name}: {done.left:,} messages are left{_why_left(done)}")


@app.command("list", cls=Verb)
def list_command(store: StoreName, *, topic: Topic = None, json: Json = False) -> None:
    """List the messages in a store by topic and error.

    Example: kaput keep list kept.db
    """
    from kaput.clients import keep

    opened = keep.open_store(store)
    document = _summary(opened, topic)
    if json:
        print_json(document)
        return
    from kaput.console import Console
    from kaput.report.document import Table, number
    from kaput.report.render.terminal import table_text

    console = Console(soft_wrap=True)
    rows = [
        (each["topic"], each["error"] or "no report yet", number(each["messages"]), number(each["in_doubt"]),
         each["oldest"], each["newest"])
        for each in document["kept"]
    ]  # fmt: skip
    console.print(f"{opened.name}: {plural(document['messages'], 'message')} kept")
    if rows:
        header = ("topic", "error", "messages", "in doubt", "oldest", "newest")
        console.print(table_text(Table(header, rows, "llrrl")), end="")
    if document["purged"]:
        console.print(f"{document['purged']:,} purged earlier")
    for sentence in document["damage"]:
        console.print(sentence)


@app.command("export", cls=Verb)
def export_command(
    store: StoreName,
    *,
    topic: Topic = None,
    out: Annotated[Path | None, Option(metavar="FILE", help="File to write (default: stdout).")] = None,
) -> None:
    """Print kept messages as JSON lines, with bytes in base64.

    Example: kaput keep export kept.db --topic orders
    """
    from kaput.clients import keep
    from kaput.clients.keep.store import records_of

    records = records_of(keep.open_store(store), topic)
    if out is None:
        for record in records:
            typer.echo(record.to_json())
        return
    with out.open("w", encoding="utf-8") as file:
        file.writelines(f"{record.to_json()}\n" for record in records)


@app.command("purge", cls=Verb)
def purge_command(
    store: StoreName,
    *,
    topic: Topic = None,
    older_than: Annotated[
        str | None, Option(metavar="TIME", help="Only messages kept for longer than this: 30m.")
    ] = None,
    yes: Annotated[bool, Option("--yes", help="Do not ask for confirmation.")] = False,
    json: Json = False,
) -> None:
    """Delete kept messages for good.

    Nothing else discards undelivered messages. The store records how many were deleted.

    Example: kaput keep purge kept.db --older-than 48h --yes
    """
    from kaput.clients import keep
    from kaput.clients.keep.store import count, now_ms, purge

    opened = keep.open_store(store)
    before_ms = None if older_than is None else now_ms() - milliseconds("--older-than", older_than)
    most = count(opened, topic)
    age = "" if older_than is None else f" if they are older than {older_than}"
    gone = 0
    if most and confirmed(f"Delete up to {most:,} messages from {opened.name}{age}?", yes):
        gone = purge(opened, topic, before_ms)
    if json:
        print_json({"store": opened.name, "purged": gone})
    else:
        typer.echo(f"{opened.name}: {plural(gone, 'message')} deleted")


def _print_dry_run(store: MessageStore, topic: str | None, include_in_flight: bool, json: bool) -> None:
    """Prints what a replay would send, without connecting to Kafka."""
    from kaput.clients.keep.store import now_ms, records_of

    sent: Counter[str] = Counter()
    in_doubt = in_flight = 0
    for record in records_of(store, topic):
        if record.sending_until_ms > now_ms() and not include_in_flight:
            in_flight += 1
        else:
            sent[record.topic] += 1
            in_doubt += record.in_doubt
    if json:
        document = {"store": store.name, "topics": sent, "in_doubt": in_doubt, "in_flight": in_flight}
        print_json(document)
        return
    for name, count in sorted(sent.items()):
        typer.echo(f"{name}: {count:,} messages would be sent")
    typer.echo(f"{sent.total():,} in total, {in_doubt:,} of them in doubt; {in_flight:,} still in flight")


def _summary(store: MessageStore, topic: str | None) -> dict[str, Any]:
    from kaput.clients.keep.store import purged, records_of

    kinds: dict[tuple[str, str | None], dict[str, Any]] = {}
    total = 0
    for record in records_of(store, topic):
        total += 1
        kind = kinds.setdefault(
            (record.topic, record.error),
            {"topic": record.topic, "error": record.error, "messages": 0, "in_doubt": 0,
             "oldest": _time(record.kept_ms), "newest": ""},
        )  # fmt: skip
        kind["messages"] += 1
        kind["in_doubt"] += record.in_doubt
        kind["newest"] = _time(record.kept_ms)
    return {
        "store": store.name, "messages": total, "kept": list(kinds.values()), "purged": purged(store),
        "damage": getattr(store, "damage", []),
    }  # fmt: skip


def _time(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="seconds")


def _sentence(done: Replayed) -> str:
    text = f"{done.delivered:,} messages delivered"
    if done.found:
        text += f", {done.found:,} were delivered by an earlier replay"
    if done.maybe_twice:
        text += f"; up to {done.maybe_twice:,} of them may be duplicates: Kafka may have had them before"
    return text


def _why_left(done: Replayed) -> str:
    reasons = [f"{count:,}: {error}" for error, count in sorted(done.rejected.items())]
    if done.in_flight:
        why = "their producer may still be sending them (--include-in-flight if it has ended)"
        reasons.append(f"{done.in_flight:,}: {why}")
    return f" ({'; '.join(reasons)})" if reasons else ": kept in the meantime; replay again"
