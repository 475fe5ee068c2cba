"""How the program ends: every exception turned into a sentence and an exit status.

0, 1 and 3 are verdicts (and 0 whatever else went well); no failure ever ends in one of them.
"""

from __future__ import annotations

import errno
import os
import re
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperGroup

from kaput.errors import AccountingError, Interrupted, KaputError, LabError, UsageError
from kaput.printable import printable_lines

FAULT_OF_KAPUT = 70
VERDICTS = (0, 1, 3)
# click's mistakes in the arguments, of whichever click typer has: all derive from this one.
_ClicksUsageError: Any = typer.BadParameter.__bases__[0]
# What a machine does to a program that is in order itself.
_MACHINE = (
    errno.ENOSPC,
    errno.EDQUOT,
    errno.EROFS,
    errno.EMFILE,
    errno.ENFILE,
    errno.ENOMEM,
    errno.EIO,
    errno.EACCES,
    errno.EPERM,
)
_LONGEST = 500
_SECRET = re.compile(r"((?:secret|password|token|credential|key)[^=]*=).+", re.IGNORECASE)


class _Raised(Exception):
    """What click must not see, because it would turn it into exit status 1."""

    def __init__(self, error: BaseException) -> None:
        self.error = error


class Verbs(TyperGroup):
    """The verbs of the program: what one raises reaches `status_of` as it is."""

    def invoke(self, ctx: Any) -> Any:
        """Runs the verb. Raises _Raised for OSError, EOFError and Interrupted."""
        try:
            return super().invoke(ctx)
        except (OSError, EOFError, Interrupted) as error:
            raise _Raised(error) from error


def status_of(program: Callable[[], object]) -> int:
    """Runs the program; its exit status. A failure is said on stderr, in a sentence."""
    try:
        try:
            status = program()
            return status if isinstance(status, int) else 0
        except _Raised as raised:
            raise raised.error from None
    except (KaputError, Interrupted) as error:
        _say(str(error))
        return error.exit_status
    except (KeyboardInterrupt, typer.Abort):
        _say("interrupted")
        return Interrupted.exit_status
    except _ClicksUsageError as error:
        error.show()
        return UsageError.exit_status
    except MemoryError:
        _say("the machine failed: no memory is left")
        return LabError.exit_status
    except (Exception, SystemExit) as error:  # noqa: BLE001
        return _unexpected(error)


def _unexpected(error: Exception | SystemExit) -> int:
    if isinstance(error, SystemExit) and error.code in (None, 0, UsageError.exit_status):
        return int(error.code or 0)  # what typer's shell completion ends with
    if isinstance(error, OSError) and error.errno in _MACHINE:
        where = f": {error.filename}" if error.filename else ""
        _say(f"the machine failed: {error.strerror}{where}")
        return LabError.exit_status
    what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    if isinstance(error, AccountingError):
        what = f"the analysis is broken, its numbers are worth nothing: {error}"
    _say(f"this is a fault of kaput itself, not a verdict: {what}")
    told = "".join(traceback.format_exception(error))
    kept = _kept(told)
    where = f"its traceback is in {kept}" if kept else f"its traceback:\n{told}"
    _say(
        f"{where}\nTo report it, send that traceback, the output of `kaput --version` and this command line "
        f"to whoever maintains kaput for you: {_command_line()}"
    )
    return FAULT_OF_KAPUT


def _kept(told: str) -> Path | None:
    """The file with the traceback, in the user's directory of logs; None where it cannot be written."""
    import platform

    import platformdirs

    from kaput import __version__

    name = f"fault-{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}-{os.getpid()}.txt"
    about = f"kaput {__version__}, Python {platform.python_version()}, {platform.platform()}"
    try:
        path = Path(platformdirs.user_log_dir("kaput")) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{about}\n{_command_line()}\n\n{told}", encoding="utf-8", errors="backslashreplace")
    except (OSError, RuntimeError):
        return None
    return path


def _command_line() -> str:
    """What was called; values that look like secrets are left out, and the ends of very long ones."""
    import shlex

    return shlex.join(["kaput", *(_SECRET.sub(r"\1...", word)[:_LONGEST] for word in sys.argv[1:])])


def _say(text: str) -> None:
    sys.stderr.write(f"kaput: {printable_lines(text.rstrip())}\n")
