"""All questions, in the order in which they are asked: one file says everything of one thing.

Consequences looks at the cases that others have found in the same task, so it comes after them.
"""

from __future__ import annotations

from collections.abc import Sequence

from kaput.analysis.engine.question import Question
from kaput.analysis.questions.aborted_read import AbortedRead
from kaput.analysis.questions.availability import Availability
from kaput.analysis.questions.commits import Commits
from kaput.analysis.questions.consequences import Consequences
from kaput.analysis.questions.course import Course
from kaput.analysis.questions.doubled import Doubled
from kaput.analysis.questions.fates import Fates
from kaput.analysis.questions.fault_windows import FaultWindows
from kaput.analysis.questions.groups import Groups
from kaput.analysis.questions.handovers import Handovers
from kaput.analysis.questions.hanging_transactions import HangingTransactions
from kaput.analysis.questions.keys import ResizedTopics
from kaput.analysis.questions.latency import Latencies
from kaput.analysis.questions.leader_changes import LeaderChanges
from kaput.analysis.questions.ledger import Ledger
from kaput.analysis.questions.logs import Logs
from kaput.analysis.questions.loss_windows import LossWindows
from kaput.analysis.questions.losses import Losses
from kaput.analysis.questions.offsets import Offsets
from kaput.analysis.questions.order import Reordered
from kaput.analysis.questions.partition_tables import PartitionTables
from kaput.analysis.questions.phantoms import Phantoms
from kaput.analysis.questions.pipes import Pipes
from kaput.analysis.questions.polls import Polls
from kaput.analysis.questions.rates import Rates
from kaput.analysis.questions.recovery import Recovery
from kaput.analysis.questions.shares import Shares
from kaput.analysis.questions.silence import Silences
from kaput.analysis.questions.standstills import Standstills
from kaput.analysis.questions.stuck import Stuck
from kaput.analysis.questions.suspects import Suspects
from kaput.analysis.questions.transactions import Transactions
from kaput.analysis.questions.unseen import Unseen
from kaput.analysis.questions.vanished import Vanished

_EVERY = (
    *(Doubled, Logs, Fates, Ledger, Phantoms, Losses, LossWindows, Offsets, Reordered),
    *(Groups, Unseen, Vanished, Polls, Commits, Handovers, Shares, Pipes, AbortedRead),
    *(Consequences, Transactions, HangingTransactions),
    *(Recovery, FaultWindows, Stuck, Silences, Latencies, Rates, Course),
    *(Availability, Standstills, Suspects),
    *(ResizedTopics, LeaderChanges, PartitionTables),
)


def questions() -> Sequence[Question]:
    """One of each."""
    return [question() for question in _EVERY]
