"""Reasons agree with their counts."""

from __future__ import annotations

import pytest

from kaput.analysis.questions import questions
from kaput.core import counted

RULES = [rule for question in questions() for rule in question.rules.values()]
CLAUSES = [clause for rule in RULES for clause in (rule.what, rule.never) if clause]


@pytest.mark.parametrize(
    ("count", "said"),
    [(0, "0 messages are lost"), (1, "1 message is lost"), (2000, "2,000 messages are lost")],
)
def test_clause_agrees_with_its_count(count: int, said: str) -> None:
    """Of two words, the second is the singular."""
    assert counted(count, "{messages are|message is} lost") == said


@pytest.mark.parametrize("clause", CLAUSES)
def test_every_clause_has_a_singular(clause: str) -> None:
    """`1 messages are lost` is not English."""
    one, many = counted(1, clause), counted(2, clause)
    assert one[1:] != many[1:] and not {"{", "|", "}"} & {*one, *many}
