"""Every exception that kaput raises on purpose, and the exit status each one ends in.

    KaputError
    ├── UsageError            exit 2   the user's mistake: an argument, a scenario file
    │   ├── EvidenceError     exit 2   a run folder that breaks the contract; the message names the file
    │   └── StillRecording    exit 2   a run that is still being recorded, or sealed
    └── LabError              exit 4   the lab or the machine failed: nothing to judge
        ├── JavaError                  no Java, or one too old
        ├── NamespacesError            the kernel lacks or forbids what network namespaces need
        ├── DistributionError          Kafka's jars cannot be fetched, or differ from the lock file
        ├── BrokerError                a broker or controller did not come up, or died on its own
        ├── StoreError                 a store of kept messages is down, full or damaged (keep/store.py)
        ├── FaultError                 a fault that did not take effect, or was not healed, with the proof
        └── WrongProtocol   exit 2     the cluster uses another security protocol (cluster/wire.py)
    KeyboardInterrupt
    └── Interrupted           exit 130 Ctrl-C or SIGTERM

Kafka's anomalies are findings, never exceptions (docs/decisions/0001-three-kinds-of-trouble.md).
A broken account (cells that do not add up) is a bug of ours: `AccountingError`, an AssertionError, exit 70,
as is every unexpected exception (cli/exit_status.py). 0, 1 and 3 are verdicts and nothing else.
"""

from __future__ import annotations


class KaputError(Exception):
    """Base of all; `exit_status` is what the command line ends with."""

    exit_status = 4


class UsageError(KaputError):
    """The user's mistake; the message names the place and what would be right."""

    exit_status = 2


class EvidenceError(UsageError):
    """A run folder that does not follow kaput.evidence/1; the message names the file."""


class StillRecording(UsageError):
    """A run folder that is still being recorded; the message names it, and what to do."""


class LabError(KaputError):
    """The lab or the machine failed before there was anything to judge."""


class JavaError(LabError):
    """Java is missing or older than 17; the message has the install line."""


class NamespacesError(LabError):
    """The kernel lacks or forbids what network namespaces need; the message names a fix."""


class DistributionError(LabError):
    """Kafka's jars could not be fetched, or do not match their lock file."""


class BrokerError(LabError):
    """A node did not come up or died on its own; the message ends with the last lines of its log."""


class FaultError(LabError):
    """A fault on demand (kaput.lab, kaput fault) that is not confirmed; the message has the proof."""


class Interrupted(KeyboardInterrupt):
    """Ctrl-C or SIGTERM reached kaput; everything it started is being ended.

    No Exception: a library that catches those, as py4j does around each call of Spark's, must not take it for
    an error of its own.
    """

    exit_status = 130


class AccountingError(AssertionError):
    """Counts that must add up do not: the analysis itself is broken, and its numbers are worth nothing."""
