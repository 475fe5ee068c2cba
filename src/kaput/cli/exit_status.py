"""Exit statuses: turns every exception into a sentence on stderr and an exit status.

With --json also into a document on stdout, which a program reads in any case. 0, 1 and 3 are verdicts (0 is
also any other success); a failure never has one of these statuses.
"""

from __future__ import annotations

import errno
import json
import os
import platform
import re
import shlex
import sys
import time
import traceback
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import typer

from kaput.cli.settings import defaults_of, read_settings
from kaput.cli.verbs import ALIKE, ALL, VerbGroup, Verbosity, command_of, write_error
from kaput.core import VERSION
from kaput.errors import AccountingError, Interrupted, KaputError, LabError, UsageError
from kaput.scenario.nearest import nearest

INTERNAL_ERROR = 70
VERDICTS = (0, 1, 3)
# The base class of click's usage errors, from whichever click typer uses.
_ClickUsageError: Any = typer.BadParameter.__bases__[0]
# Failures of the machine, not of the program.
_MACHINE = (
    errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EIO,
    errno.EACCES, errno.EPERM,
)  # fmt: skip
# What click and pydantic write, and what a user is to read.
_CLICKS_WORDS = {
    "Input should be a valid integer, unable to parse string as an integer": "write a whole number",
    "Input should be a valid number, unable to parse string as a number": "write a number",
    "Input should be greater than or equal to ": "at least ",
    "Input should be less than or equal to ": "at most ",
    "Value error, ": "",
    "Invalid value: ": "",
}
_PROPOSALS = re.compile(
    r"\.? \(?(?:Possible options:|Did you mean) (.*?)[?)]*$"
)  # as versions of click have them
_LONGEST = 500
# Verbs whose arguments are another program's.
OTHER_PROGRAMS = ("shell", "tool", "inside")
_SECRET = re.compile(r"((?:secret|password|token|credential|key)[^=]*=).+", re.IGNORECASE)


class _Raised(Exception):
    """Wraps an exception that click would turn into exit status 1."""

    def __init__(self, error: BaseException) -> None:
        self.error = error


class RootGroup(VerbGroup):
    """The program's command group; exceptions of commands reach `status_of` unchanged."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """`kaput help --all`, or `--help --all`, explains all verbs."""
        if "--all" in args and {"-h", "--help"} & set(args) and len(args) == 2:
            args = ["help", "--all"]
        if args[:1] == ["help"]:
            ctx.meta[ALL] = "--all" in args
            args = [word for word in args if word != "--all"]
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Raises _Raised for OSError, EOFError, Interrupted."""
        ctx.default_map = defaults_of(self, read_settings())
        try:
            return super().invoke(ctx)
        except (OSError, EOFError, Interrupted) as error:
            raise _Raised(error) from error


def status_of(program: Callable[[], object]) -> int:
    """Runs the program and returns its exit status. A failure is one sentence on stderr."""
    try:
        try:
            status = program()
            return status if isinstance(status, int) else 0
        except _Raised as raised:
            raise raised.error from None
    except (KaputError, Interrupted) as error:
        return _failed(str(error), error.exit_status)
    except (KeyboardInterrupt, typer.Abort):
        return _failed("interrupted", Interrupted.exit_status)
    except _ClickUsageError as error:
        return _misused(error)
    except MemoryError:
        return _failed("system error: out of memory", LabError.exit_status)
    except (Exception, SystemExit) as error:  # noqa: BLE001
        return _unexpected(error)
    finally:
        Verbosity.reset()


def _misused(error: Any) -> int:
    """A mistake that click found, and the command that explains what is right."""
    path = command_of(error.ctx) if error.ctx is not None else "kaput"
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()
        return UsageError.exit_status
    if wanted := getattr(error, "option_name", None):
        error.possibilities = nearest(str(wanted), getattr(error, "possibilities", None) or (), cutoff=ALIKE)
    text = " ".join(error.format_message().split()).rstrip(".")
    text = _PROPOSALS.sub(r" (did you mean \1?)", text)
    for theirs, ours in _CLICKS_WORDS.items():
        text = text.replace(theirs, ours)
    return _failed(f"{text}; see {path} --help", UsageError.exit_status)


def _unexpected(error: Exception | SystemExit) -> int:
    completing = "_KAPUT_COMPLETE" in os.environ  # ends with 1 for fish where nothing is to be proposed
    if isinstance(error, SystemExit) and (completing or error.code in (None, 0, UsageError.exit_status)):
        return int(error.code or 0)
    if isinstance(error, OSError) and error.errno in _MACHINE:
        where = f": {error.filename}" if error.filename else ""
        return _failed(f"system error: {error.strerror}{where}", LabError.exit_status)
    what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    if isinstance(error, AccountingError):
        what = f"the analysis is broken, do not trust its numbers: {error}"
    _failed(f"this is a bug in kaput, not a verdict: {what}", INTERNAL_ERROR)
    trace = "".join(traceback.format_exception(error))
    path = _saved(trace)
    where = f"the traceback is in {path}" if path else f"the traceback:\n{trace}"
    write_error(
        f"{where}\nPlease report the bug with that traceback, the output of `kaput version --json` and this "
        f"command line: {_command_line()}"
    )
    return INTERNAL_ERROR


def _failed(text: str, status: int) -> int:
    if Verbosity.lines and status != INTERNAL_ERROR and (trace := sys.exc_info()[1]) is not None:
        write_error("".join(traceback.format_exception(trace)))
    write_error(text)
    _print_document(text, status)
    return status


def _print_document(text: str, status: int) -> None:
    """With --json: the failure as a document on stdout, unless there is output already."""
    if _json_wanted(sys.argv[1:]) and not getattr(sys.stdout, "used", False):
        sys.stdout.write(
            json.dumps({"error": text.rstrip(), "exit_status": status}, ensure_ascii=False) + "\n"
        )


def _json_wanted(words: list[str]) -> bool:
    """Whether the command line asks for JSON; what belongs to another program does not count."""
    if words[:1] and words[0] in OTHER_PROGRAMS:
        return False
    words = words[: words.index("--")] if "--" in words else words
    options = {"-ojson", "--json", "--output=json", "--format=json"}
    named = {(option, "json") for option in ("-o", "--output", "--format")}
    return not options.isdisjoint(words) or not named.isdisjoint(pairwise(words))


def _saved(trace: str) -> Path | None:
    """Writes the traceback to a file in the user's log directory and returns it; None if that fails."""
    import platformdirs

    name = f"fault-{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}-{os.getpid()}.txt"
    about = f"kaput {VERSION}, Python {platform.python_version()}, {platform.platform()}"
    try:
        path = Path(platformdirs.user_log_dir("kaput")) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{about}\n{_command_line()}\n\n{trace}", encoding="utf-8", errors="backslashreplace")
    except (OSError, RuntimeError):
        return None
    return path


def _command_line() -> str:
    """The command line, with secret-looking values removed and long ones truncated."""
    return shlex.join(["kaput", *(_SECRET.sub(r"\1...", word)[:_LONGEST] for word in sys.argv[1:])])
