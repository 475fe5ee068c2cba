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

from kaput.cli.exit_status import OTHER_PROGRAMS, VERDICTS, RootGroup, status_of
from kaput.cli.verbs import GROUPS, Verb, write_error
from kaput.core import VERSION
from kaput.errors import LabError
from kaput.printable import EscapingStream, json_escaped

_ESCAPE = "kaput-escape"
# Of OTHER_PROGRAMS: options after the first argument are for the other program.
PASSED_ON = {"allow_interspersed_args": False, "ignore_unknown_options": True}


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


# The verbs by section, in the order of `kaput --help`. To add one: a module with a function NAME_command (a
# group of verbs: with `app`), `_` for each hyphen, and its name here (docs/ARCHITECTURE.md).
EXPERIMENTS, CLUSTERS, CLIENTS, EVIDENCE = GROUPS
VERBS = {
    EXPERIMENTS: "run matrix regress demo search scenarios undo cache",
    CLUSTERS: "up serve status fault grow shell down watch compare doctor metrics reassign failover alerts",
    CLIENTS: "sequence replay keep peek tool inside",
    EVIDENCE: "analyze report export dashboard bench bug version docs",
}
# Verbs that are not in a module of their name.
_MODULES = {"version": "bug"}
_MODULES |= dict.fromkeys(("status", "grow", "shell", "down", "inside"), "running_clusters")


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
    for group, words in VERBS.items():
        for name in words.split():
            if names and name not in names:
                continue
            word = name.replace("-", "_")
            module = import_module(f"kaput.cli.{_MODULES.get(name, word)}")
            command = getattr(module, f"{word}_command", None)
            if command is None:
                made.add_typer(module.app, name=name, rich_help_panel=group)
            else:
                settings = PASSED_ON if name in OTHER_PROGRAMS else None
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
    verb = {*sys.argv[1:2]} & {name for words in VERBS.values() for name in words.split()}
    with interrupts():
        # color: otherwise click deletes escape sequences in data; Streams escapes them, and so typer's own.
        return program(verb)(standalone_mode=False, color="--install-completion" not in sys.argv)
