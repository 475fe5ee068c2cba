"""All questions, in the order in which they are asked and in which the verdict lists its reasons.

Each file covers one topic. The order below matters to what is written: reasons, claims. A question that it
does not name is asked before Consequences, which uses the cases that others found in the same task.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from kaput.analysis.engine.question import Question
from kaput.analysis.questions.availability import PartitionAvailability
from kaput.analysis.questions.clients import ClientVersions, ErrorsOfClients
from kaput.analysis.questions.commits import Commits
from kaput.analysis.questions.consequences import Consequences
from kaput.analysis.questions.duplicate_rows import DuplicateRows
from kaput.analysis.questions.fates import Fates, Phantoms
from kaput.analysis.questions.fault_windows import FaultWindows
from kaput.analysis.questions.groups import Groups
from kaput.analysis.questions.handovers import Handovers
from kaput.analysis.questions.kept import KeptMessages
from kaput.analysis.questions.keys import ResizedTopics
from kaput.analysis.questions.latency import Latencies
from kaput.analysis.questions.leader_changes import LeaderChanges
from kaput.analysis.questions.ledger import LedgerTable
from kaput.analysis.questions.logs import Logs, PartitionTables
from kaput.analysis.questions.losses import Losses
from kaput.analysis.questions.mirrored_copies import Looped, Merges, MirroredTwice, MirrorOrder
from kaput.analysis.questions.mirrors import Mirrors, Unmirrored
from kaput.analysis.questions.offsets import Offsets
from kaput.analysis.questions.order import StorageOrder
from kaput.analysis.questions.pipes import Pipes
from kaput.analysis.questions.plan import PlanOfMoves
from kaput.analysis.questions.polls import Polls
from kaput.analysis.questions.rates import LoadRates
from kaput.analysis.questions.recovery import Recovery
from kaput.analysis.questions.shares import Shares
from kaput.analysis.questions.silences import Silences
from kaput.analysis.questions.stuck import Stuck
from kaput.analysis.questions.suspects import Suspects
from kaput.analysis.questions.time_series import TimeSeries
from kaput.analysis.questions.transactions import AbortedRead, BrokenTransactions, HangingTransactions
from kaput.analysis.questions.unseen import TranslatedAhead, TranslatedBehind, Unseen
from kaput.analysis.questions.vanished import Vanished

# fmt: off
_IN_ORDER = (
    # Messages in the log, and in stores.
    DuplicateRows, Logs, Losses, Fates, LedgerTable, Phantoms, StorageOrder, Offsets,
    KeptMessages,
    # Several clusters.
    Unmirrored, MirroredTwice, MirrorOrder, Merges, Looped, TranslatedAhead, TranslatedBehind, Mirrors,
    PlanOfMoves,
    # Groups.
    Groups, Vanished, Unseen, Polls, Commits, Handovers, Shares, Pipes, AbortedRead,
    # What follows from a loss; transactions.
    Consequences, BrokenTransactions, HangingTransactions,
    # Times and rates.
    Recovery, FaultWindows, Stuck, Latencies, LoadRates, TimeSeries, PartitionAvailability,
    Silences,
    # The run itself.
    Suspects, ResizedTopics, LeaderChanges, PartitionTables, ClientVersions, ErrorsOfClients,
)
# fmt: on


def questions() -> Sequence[Question]:
    """A new instance of each question."""
    return [question() for question in _every()]


@cache
def _every() -> Sequence[type[Question]]:
    """The questions that are defined in the files of this package."""
    modules = [import_module(f"{__name__}.{module.name}") for module in iter_modules(__path__)]
    others = [
        each
        for module in modules
        for each in vars(module).values()
        if isinstance(each, type) and issubclass(each, Question) and each.__module__ == module.__name__
        if each not in _IN_ORDER
    ]
    at = _IN_ORDER.index(Consequences)
    return [*_IN_ORDER[:at], *others, *_IN_ORDER[at:]]
