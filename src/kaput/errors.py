"""All exceptions that kaput raises on purpose, with their exit statuses.

    KaputError
    ├── UsageError            exit 2   the user's mistake: an argument, a scenario file
    │   ├── EvidenceError     exit 2   a run folder that breaks the contract; the message names the file
    │   └── StillRecording    exit 2   a run that is still being recorded, or sealed
    └── LabError              exit 4   the lab or the machine failed: there is nothing to judge
        ├── JavaError                  no Java, or one too old
        ├── NamespacesError            the kernel lacks or forbids what network namespaces need
        ├── DistributionError          Kafka's jars cannot be fetched, or differ from the lock file
        ├── BrokerError                a broker or controller did not start, or died on its own
        ├── UnknownFormat              a file, or a tool's output, that kaput cannot read
        ├── StoreError                 a store of kept messages is down, full or damaged (keep/store.py)
        ├── FaultError                 a fault that did not take effect or was not healed, with evidence
        └── WrongProtocol   exit 2     the cluster uses another security protocol (cluster/wire.py)
    KeyboardInterrupt
    └── Interrupted           exit 130 Ctrl-C or SIGTERM

Kafka's anomalies are findings, never exceptions (docs/decisions/0001-three-kinds-of-trouble.md).
Counts that do not add up are a bug in kaput: `AccountingError`, an AssertionError, exit 70, as for every
unexpected exception (cli/exit_status.py). 0, 1 and 3 are always verdicts.
"""

from __future__ import annotations

from pathlib import Path


class KaputError(Exception):
    """The base class; `exit_status`: of the command line."""

    exit_status = 4


class UsageError(KaputError):
    """The user's mistake; the message names the place and the fix."""

    exit_status = 2


def unreadable(path: str | Path, error: OSError | UnicodeDecodeError) -> UsageError:
    """The exception for a file of the user's that could not be read, or is not text."""
    if isinstance(error, FileNotFoundError):
        return UsageError(f"{path}: no such file" + ("" if Path(path).is_absolute() else f" in {Path.cwd()}"))
    if isinstance(error, UnicodeDecodeError):
        return UsageError(f"{path}: not UTF-8 text (byte {error.start}); save it as UTF-8")
    return UsageError(f"{path}: cannot be read ({error.strerror or error})")


class EvidenceError(UsageError):
    """A run folder that does not follow kaput.evidence/1; the message names the file."""


class StillRecording(UsageError):
    """A run folder that is still being recorded; the message names it and the next step."""


class LabError(KaputError):
    """The lab or the machine failed before there was anything to judge."""


class JavaError(LabError):
    """Java is missing or older than 17; the message has the install line."""


class NamespacesError(LabError):
    """The kernel lacks or forbids what network namespaces need; the message names a fix."""


class DistributionError(LabError):
    """Kafka's jars could not be fetched, or do not match their lock file."""


class BrokerError(LabError):
    """A node did not start or died on its own; the message ends with the last lines of its log."""


class UnknownFormat(LabError, ValueError):
    """A file or output of Kafka's in an unknown format. A ValueError, like that of a damaged file."""

    def __init__(self, what: str) -> None:
        """`what`: what was found and where, as in `Kafka 9.0.0's storage tool wrote data.bin`."""
        from kaput.core import (
            NEWEST_KAFKA,
            OLDEST_KAFKA,
        )  # here, since kaput.keep loads nothing that it can spare

        super().__init__(
            f"{what}, which kaput does not know: it works with Kafka {OLDEST_KAFKA} to {NEWEST_KAFKA}"
        )


class FaultError(LabError):
    """A fault on demand (kaput.lab, kaput fault) that was not confirmed; the message has the evidence."""


class Interrupted(KeyboardInterrupt):
    """Ctrl-C or SIGTERM; everything that kaput started is being ended.

    Not an Exception: libraries that catch those, as py4j does around each Spark call, must not handle it as
    their own error.
    """

    exit_status = 130


class AccountingError(AssertionError):
    """Counts that must add up do not: the analysis is broken, and its numbers are worthless."""


def package_with(extra: str) -> str:
    """`kaput[otel]`; `kaput-lab[otel]` where only that is installed."""
    return f"{'kaput' if _is_whole() else 'kaput-lab'}[{extra}]"


def needs_package(what: str, error: ModuleNotFoundError) -> ModuleNotFoundError | UsageError:
    """The sentence for `what`, which needs all of kaput, if only kaput-lab is installed; else the error."""
    if _is_whole():
        return error
    return UsageError(f"{what} needs the package kaput: pip install kaput")


def _is_whole() -> bool:
    from importlib.util import find_spec  # here, since kaput.keep loads nothing that it can spare

    return find_spec("kaput.analysis") is not None
