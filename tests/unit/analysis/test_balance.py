"""An account in which something is missing between two stages is refused, not judged."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from fakes.everything import everything
from fakes.histories import History
from fakes.in_process import InProcess
from kaput.analysis import assemble, inputs
from kaput.analysis.account import Account
from kaput.analysis.pipeline import count
from kaput.analysis.plan import plan
from kaput.errors import AccountingError
from kaput.evidence.reading import check

Change = Callable[[Account], None]


def _history() -> History:
    """Something of everything that is counted twice."""
    history = everything()
    history.rows["end_offsets"].clear()
    history.stored(9, 1, 0).stored(8, 0, 3, partition=1).stored(7, 0, 0, partition=1)
    history.handed(3, 0, 3, 1200).handed(2, 0, 1, 1210, topic="bills.v2")
    return history.sent(2, 9, None, "failed", partition=1).stored(11, 2, 9, partition=1, leader_epoch=0)


def _accounted(path: Path) -> tuple[inputs.Inputs, Account]:
    given = inputs.read(check(_history().read_to_end().write(path)))
    return given, count(InProcess(), given, plan(given.evidence))  # type: ignore[arg-type]


def test_an_account_that_balances_is_judged(tmp_path: Path) -> None:
    """There is something of each kind in it."""
    given, account = _accounted(tmp_path)
    assert account.losses and account.displaced and account.vanished and account.tally.duplicates
    assert assemble.findings(given, account).anomaly("lost")[0].count == account.lost


BROKEN: dict[str, tuple[Change, str]] = {
    "a loss without a cause": (
        lambda a: setattr(a, "losses", list(a.losses)[1:]), r"lost \d+ by fate and \d+ by cause"
    ),
    "a vanished message without a cause": (
        lambda a: setattr(a, "vanished", list(a.vanished)[1:]), r"vanished of group billing \d+ by case"
    ),
    "an inconsistent offset without a cause": (
        lambda a: setattr(a, "displaced", list(a.displaced)[1:]), "inconsistent-offset"
    ),
    "a duplicate without a producer": (lambda a: a.tally.duplicates.clear(), "duplicate .* by producer"),
    "a ghost without a case": (
        lambda a: a.cases.subtract({("ghost", None, False): 1}), "ghost 1 by fate and 0 by case"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_missing_between_two_counts_is_a_fault_of_ours(name: str, tmp_path: Path) -> None:
    """It is named, with both counts."""
    change, words = BROKEN[name]
    given, account = _accounted(tmp_path)
    change(account)
    with pytest.raises(AccountingError, match=f"does not balance: .*{words}"):
        assemble.findings(given, account)
