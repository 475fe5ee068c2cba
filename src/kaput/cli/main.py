"""The program `kaput` with all its commands, and its output. Exit statuses: exit_status.py.

stdout and stderr tolerate a closed pipe, which is not an error and does not change the exit status. Control
characters in data are escaped (printable.py). Other write errors (a full disk) are reported when the program
ends.
"""

from __future__ import annotations

import codecs
import io
import logging
import os
import sys
from collections.abc import Collection
from importlib import import_module
from typing import Annotated, Any, TextIO

import typer
from typer import Option

from kaput.cli.exit_status import VERDICTS, RootGroup, status_of
from kaput.cli.verbs import GROUPS, Verb, write_error
from kaput.core import VERSION
from kaput.errors import LabError
from kaput.printable import EscapingStream, json_escaped

_ESCAPE = "kaput-escape"


class _Raw(io.FileIO):
    """A raw stream of a file descriptor. After the first failure all output is dropped."""

    failure: OSError | None = None

    def write(self, data: Any, /) -> int:
        if self.failure is None:
            try:
                return super().write(data)
            except OSError as error:
                self.failure = error
        return len(data)


class Streams:
    """The program's stdout and stderr, from start to end."""

    def __init__(self) -> None:
        _occupy_standard_descriptors()
        codecs.register_error(_ESCAPE, _escape)
        self._stdout, self._stderr = _Raw(1, "wb", closefd=False), _Raw(2, "wb", closefd=False)
        # Streams that were replaced, by a test for example, stay.
        if sys.stdout is None or sys.stdout is sys.__stdout__:
            sys.stdout = _text(self._stdout, sys.stdout, _ESCAPE)
        if sys.stderr is None or sys.stderr is sys.__stderr__:
            sys.stderr = _text(self._stderr, sys.stderr, "backslashreplace")

    def finish(self) -> str | None:
        """Flushes. Returns why stdout could not be written; None if it could, or if its reader closed it."""
        sys.stdout.flush()
        sys.stderr.flush()
        failure = self._stdout.failure
        return None if failure is None or isinstance(failure, BrokenPipeError) else str(failure.strerror)


def _occupy_standard_descriptors() -> None:
    """Opens standard descriptors that are closed: otherwise the next opened file would get their numbers."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)


def _text(raw: _Raw, before: TextIO | None, errors: str) -> TextIO:
    terminal = raw.isatty()
    old = before if isinstance(before, io.TextIOWrapper) else None
    # JSON must be UTF-8 or ASCII; ASCII with the rest escaped.
    whole = old is None or codecs.lookup(old.encoding).name == "utf-8"
    return EscapingStream(
        io.BufferedWriter(raw),
        encoding="utf-8" if whole else "ascii",
        errors=errors,
        line_buffering=terminal or raw.fileno() == 2,
        write_through=old.write_through if old else False,
    )


def _escape(error: UnicodeError) -> tuple[str, int]:
    """Escapes characters that the terminal cannot show, as in JSON, so it is also valid in a JSON string."""
    assert isinstance(error, UnicodeEncodeError)
    return json_escaped(error.object[error.start : error.end]), error.end


# To add a verb: a module with its command, and a line in its section below (docs/ARCHITECTURE.md).
# Options after the first argument are for the other program.
PASSED_ON = {"allow_interspersed_args": False, "ignore_unknown_options": True}
EXPERIMENTS, CLUSTERS, CLIENTS, EVIDENCE = GROUPS

VERBS: tuple[tuple[str, str, str, dict[str, Any] | None], ...] = (
    (EXPERIMENTS, "run", "run:run_command", None),
    (EXPERIMENTS, "matrix", "matrix:matrix_command", None),
    (EXPERIMENTS, "regress", "regress:regress_command", None),
    (EXPERIMENTS, "demo", "demo:demo_command", None),
    (EXPERIMENTS, "search", "search:search_command", None),
    (EXPERIMENTS, "scenarios", "scenarios:app", None),
    (EXPERIMENTS, "undo", "undo:undo_command", None),
    (EXPERIMENTS, "cache", "cache:app", None),
    (CLUSTERS, "up", "up:up_command", None),
    (CLUSTERS, "serve", "serve:serve_command", None),
    (CLUSTERS, "status", "running_clusters:status_command", None),
    (CLUSTERS, "fault", "fault:app", None),
    (CLUSTERS, "grow", "running_clusters:grow_command", None),
    (CLUSTERS, "shell", "running_clusters:shell_command", PASSED_ON),
    (CLUSTERS, "down", "running_clusters:down_command", None),
    (CLUSTERS, "watch", "watch:watch_command", None),
    (CLUSTERS, "compare", "compare:compare_command", None),
    (CLUSTERS, "doctor", "doctor:doctor_command", None),
    (CLUSTERS, "metrics", "metrics:metrics_command", None),
    (CLUSTERS, "reassign", "reassign:reassign_command", None),
    (CLUSTERS, "failover", "failover:failover_command", None),
    (CLUSTERS, "alerts", "alerts:app", None),
    (CLIENTS, "sequence", "sequence:app", None),
    (CLIENTS, "replay", "replay:replay_command", None),
    (CLIENTS, "keep", "keep:app", None),
    (CLIENTS, "peek", "peek:peek_command", None),
    (CLIENTS, "tool", "tool:tool_command", PASSED_ON),
    (CLIENTS, "inside", "running_clusters:inside_command", PASSED_ON),
    (EVIDENCE, "analyze", "analyze:analyze_command", None),
    (EVIDENCE, "report", "report:report_command", None),
    (EVIDENCE, "export", "export:export_command", None),
    (EVIDENCE, "dashboard", "dashboard:dashboard_command", None),
    (EVIDENCE, "bench", "bench:app", None),
    (EVIDENCE, "bug", "bug:bug_command", None),
    (EVIDENCE, "version", "bug:version_command", None),
    (EVIDENCE, "docs", "docs:docs_command", None),
)


def program(names: Collection[str] = ()) -> typer.Typer:
    """The program with these verbs; with all of them, which takes a tenth of a second, without names."""
    made = typer.Typer(
        name="kaput",
        cls=RootGroup,
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
        help="Break a real Apache Kafka cluster on purpose, and account for every message.\n\n"
        "Example: kaput run leader-kill-lagging-acks-1",
        epilog="kaput help VERB explains a verb, kaput help --all lists all of them.",
    )
    made.callback()(_root)
    for group, name, place, settings in VERBS:
        if names and name not in names:
            continue
        module, _, attribute = place.partition(":")
        command = getattr(import_module(f"kaput.cli.{module}"), attribute)
        if isinstance(command, typer.Typer):
            made.add_typer(command, name=name, rich_help_panel=group)
        else:
            made.command(name, cls=Verb, rich_help_panel=group, context_settings=settings)(command)
    return made


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"kaput {VERSION}")
        raise typer.Exit


def _root(
    version: Annotated[
        bool, Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Options of the program itself."""


def main() -> None:
    """The entry point. Exit statuses: errors.py and docs/CI.md."""
    streams = Streams()
    status = status_of(_run)
    if failure := streams.finish():
        write_error(f"cannot write to stdout ({failure}): the output is incomplete")
        status = LabError.exit_status if status in VERDICTS else status
    sys.exit(status)


def _run() -> object:
    from kaput.processes.signals import interrupts
    from kaput.processes.skip_pandas import skip_pandas

    skip_pandas()
    # Only py4j logs to the root logger: a traceback whenever Ctrl-C ends its JVM during a call.
    logging.getLogger().addFilter(lambda _record: False)
    # The verb that comes first is the only one to be loaded.
    verb = [name for _, name, _, _ in VERBS if name in sys.argv[1:2]]
    with interrupts():
        # color: otherwise click deletes escape sequences in data; Streams escapes them, and so typer's own.
        return program(verb)(standalone_mode=False, color="--install-completion" not in sys.argv)
