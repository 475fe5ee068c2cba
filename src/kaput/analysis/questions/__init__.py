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

_IN_ORDER = """
Messages in the log, and in stores:
    DuplicateRows Logs Losses Fates LedgerTable Phantoms StorageOrder Offsets KeptMessages
Several clusters:
    Unmirrored MirroredTwice MirrorOrder Merges Looped TranslatedAhead TranslatedBehind Mirrors PlanOfMoves
Groups:
    Groups Vanished Unseen Polls Commits Handovers Shares Pipes AbortedRead
What follows from a loss; transactions:
    Consequences BrokenTransactions HangingTransactions HeldBack
Times and rates:
    Recovery FaultWindows Stuck Latencies LoadRates TimeSeries PartitionAvailability Silences
The run itself:
    Suspects ResizedTopics LeaderChanges ClientVersions ErrorsOfClients
"""


def questions() -> Sequence[Question]:
    """A new instance of each question."""
    return [question() for question in _every()]


@cache
def _every() -> Sequence[type[Question]]:
    """The questions that are defined in the files of this package, in order."""
    modules = [import_module(f"{__name__}.{module.name}") for module in iter_modules(__path__)]
    defined = {
        name: each
        for module in modules
        for name, each in vars(module).items()
        if isinstance(each, type) and issubclass(each, Question) and each.__module__ == module.__name__
    }
    lines = [line.split() for line in _IN_ORDER.splitlines() if line.startswith(" ")]
    order = [name for line in lines for name in line]
    at = order.index("Consequences")
    others = [name for name in defined if name not in order]
    return [defined[name] for name in (*order[:at], *others, *order[at:])]
