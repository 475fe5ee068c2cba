"""`kaput up`: a cluster that stays until `kaput down`, in this terminal or in the background."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from kaput.operate.homes import Card, Home

_START_TIMEOUT_S = 180.0  # fetching jars happens before
_END_TIMEOUT_S = 30.0
_POLL_S = 0.05

Name = Annotated[
    str,
    typer.Option(
        "--name", "--cluster", metavar="NAME", help="What the cluster is called by the other verbs."
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")]


def up_command(
    scenario: Annotated[
        str | None,
        typer.Argument(help="Take cluster and topics of this built-in or file.", show_default=False),
    ] = None,
    *,
    brokers: Annotated[int | None, typer.Option(min=1, help="How many brokers (3).")] = None,
    controllers: Annotated[
        int | None, typer.Option(min=1, help="That many dedicated controllers; without it brokers vote.")
    ] = None,
    rack: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Brokers are in these racks, in turn.")
    ] = None,
    mode: Annotated[str | None, typer.Option(help="kraft, or zookeeper.")] = None,
    kafka: Annotated[str | None, typer.Option(metavar="VERSION", help="Which Kafka.")] = None,
    network: Annotated[str | None, typer.Option(help="loopback, or namespaces (Linux).")] = None,
    security: Annotated[
        str | None, typer.Option(help="none, or scram-tls: TLS, users with passwords, rules (KRaft).")
    ] = None,
    config: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="A setting of every broker.")
    ] = None,
    kafka_home: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Use this Kafka installation instead of locked jars."),
    ] = None,
    name: Name = "lab",
    detach: Annotated[bool, typer.Option(help="Return once it is ready; `kaput down` ends it.")] = False,
    json: Json = False,
) -> None:
    """Start a cluster that stays, to be looked at, broken and grown; Ctrl-C or `kaput down` ends it.

    Example: kaput up --brokers 3 --detach && kaput fault inject kill --target "leader-of orders/0" --for 10s
    """
    from kaput.errors import UsageError
    from kaput.operate.homes import home

    wrong = [text for text in config or [] if "=" not in text]
    if wrong:
        raise UsageError(f"--config {wrong[0]}: write KEY=VALUE")
    given = {
        "brokers": brokers, "controllers": controllers, "mode": mode, "kafka": kafka, "network": network,
        "security": security, "racks": rack or None,
    }  # fmt: skip
    cluster: dict[str, Any] = {key: value for key, value in given.items() if value is not None}
    if config:
        cluster["config"] = dict(text.split("=", 1) for text in config)
    place = home(name)
    if detach:
        _show(_in_background(place), json)
    else:
        _here(place, scenario, cluster, kafka_home, json)


def _here(
    place: Home, scenario: str | None, cluster: dict[str, Any], kafka_home: Path | None, json: bool
) -> None:
    """Keeps the cluster in this very process."""
    from kaput.cli.jars import distribution_for
    from kaput.cluster.network.entering import enter
    from kaput.operate.keeper import Keeper
    from kaput.operate.lab import lab
    from kaput.processes.signals import interrupts

    made = lab(scenario, folder=place.folder, note=_note, **cluster)
    # With a progress bar, where jars are missing.
    made.fetch(lambda version, java: distribution_for(version, java, kafka_home))
    if made.spec.network == "namespaces":
        enter(sys.argv[1:])
    with interrupts(), place.locked():
        place.make()
        try:
            with made:
                keeper = Keeper(place, made, kafka_home)
                with keeper.answering():
                    _show(keeper.card, json)
                    sys.stdout.flush()
                    keeper.keep()
        finally:
            place.remove()


def _in_background(place: Home) -> Card:
    """The same command without --detach, in a session of its own; returns when it is ready.

    Raises LabError with what it said when it ends instead.
    """
    from kaput.errors import LabError

    place.refuse_taken()
    log = place.log_of_start()
    try:
        keeper = _start_keeper(log)
    except OSError as error:
        raise LabError(f"{log} cannot be written ({error.strerror}); set XDG_STATE_HOME") from None
    try:
        return _ready(place, keeper, log)
    except BaseException:
        _end_keeper(keeper)  # Ctrl-C does not reach its session
        raise


def _ready(place: Home, keeper: subprocess.Popen[bytes], log: Path) -> Card:
    from kaput.errors import LabError, UsageError

    limit = time.monotonic() + _START_TIMEOUT_S
    while time.monotonic() < limit:
        card = place.card()
        if card is not None and card.pid == keeper.pid and card.alive:
            log.replace(place.log)
            return card
        if (status := keeper.poll()) is not None:
            text = log.read_text(errors="replace").strip().removeprefix("kaput: ")
            log.unlink()
            raise (UsageError if status == UsageError.exit_status else LabError)(text)
        time.sleep(_POLL_S)
    raise LabError(f"the cluster was not ready within {_START_TIMEOUT_S:.0f} s; see {log}")


def _end_keeper(keeper: subprocess.Popen[bytes]) -> None:
    from kaput.processes.signals import shielded

    with shielded():
        if keeper.poll() is None:
            keeper.terminate()
            try:
                keeper.wait(_END_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                keeper.kill()  # its guardian ends what it had started


def _start_keeper(log: Path) -> subprocess.Popen[bytes]:
    """The same command without --detach; it locks the name itself, so that only one of several gets it."""
    arguments = [word for word in sys.argv[1:] if word not in ("--detach", "--json")]
    log.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with log.open("wb") as output:
        return subprocess.Popen(
            # -P: a file of the working directory must not be taken for a module.
            [sys.executable, "-P", "-m", "kaput", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def _show(card: Card, json: bool) -> None:
    import json as library

    brokers = card.bootstrap_servers.split(",")
    if json:
        said = {
            "cluster": card.name,
            "bootstrap_servers": card.bootstrap_servers,
            "brokers": list(range(1, len(brokers) + 1)),
            "folder": card.folder,
            "client_properties": card.client_properties,
        }
        typer.echo(library.dumps(said))
        return
    which = "" if card.name == "lab" else f" --cluster {card.name}"
    typer.echo(f"{card.name}: {len(brokers)} brokers of Kafka {card.kafka} at {card.bootstrap_servers}")
    typer.echo(f"  logs: {card.folder}/BROKER/server.log")
    if card.client_properties is not None:
        typer.echo(f"  clients are let in by: --command-config {card.client_properties}")
    typer.echo(
        f"  kaput status{which}; kaput fault inject kill --target 'broker 1'{which}; kaput down{which}"
    )


def _note(text: str) -> None:
    typer.echo(text, err=True)
