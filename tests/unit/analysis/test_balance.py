"""An account in which something is missing between two stages is refused, not judged."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from fakes.everything import everything
from fakes.histories import History
from fakes.in_process import InProcess
from kaput.analysis import document
from kaput.analysis.facts import inputs
from kaput.analysis.pipeline import count
from kaput.analysis.questions import questions
from kaput.analysis.run import Run, plan
from kaput.errors import AccountingError
from kaput.evidence.reading import check

Change = Callable[[Run], None]


def _history() -> History:
    """Something of everything that is counted twice."""
    history = everything()
    history.rows["end_offsets"].clear()
    history.stored(9, 1, 0).stored(8, 0, 3, partition=1).stored(7, 0, 0, partition=1)
    history.handed(3, 0, 3, 1200).handed(2, 0, 1, 1210, topic="bills.v2")
    return history.sent(2, 9, None, "failed", partition=1).stored(11, 2, 9, partition=1, leader_epoch=0)


def _counted(path: Path) -> Run:
    given = inputs.read(check(_history().read_to_end().write(path)))
    return count(InProcess(), given, plan(given.evidence))  # type: ignore[arg-type]


def test_a_run_that_balances_is_judged(tmp_path: Path) -> None:
    """There is something of each kind in it."""
    run = _counted(tmp_path)
    assert all(run.sums[name].height for name in ("losses", "displaced", "vanished"))
    assert document.findings(run, questions()).anomaly("lost")[0].count == run.totals.counted("lost") > 0


def _without_one(name: str) -> Change:
    """A row of that sum is lost on its way."""

    def change(run: Run) -> None:
        run.sums[name] = run.sums[name][1:]

    return change


BROKEN: dict[str, tuple[Change, str]] = {
    "a loss without a cause": (_without_one("losses"), r"lost \d+ by case and \d+ by cause"),
    "a vanished message without a cause": (_without_one("vanished"), r"vanished of group billing \d+"),
    "an inconsistent offset without a cause": (_without_one("displaced"), "inconsistent-offset"),
    "a loss without a case": (
        lambda run: run.totals.cases.subtract({("lost", None, False): 1}), r"lost \d+ by fate"
    ),
    "a ghost without a case": (
        lambda run: run.totals.cases.subtract({("ghost", None, False): 1}), "ghost 1 by fate and 0 by case"
    ),
    "more excuses than cases": (
        lambda run: run.sums.update(
            too_early=pl.DataFrame({"group": [0], "topic": [0], "unclear": [False], "n": [99]})
        ),
        "unseen of .* that is excused: 99",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_unbalanced_counts_raise_an_accounting_error(name: str, tmp_path: Path) -> None:
    """It is named, with both counts."""
    change, words = BROKEN[name]
    run = _counted(tmp_path)
    change(run)
    with pytest.raises(AccountingError, match=f"does not balance: .*{words}"):
        document.findings(run, questions())
