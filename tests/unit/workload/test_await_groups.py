"""When a group is drained: it has committed everything, or, as a share group, has done with everything."""

from __future__ import annotations

from typing import Any

import pytest

from kaput.core import TopicPartition
from kaput.errors import LabError
from kaput.scenario.model import Group
from kaput.workload.drain import await_groups

ENDS = {TopicPartition("jobs", 0): 10, TopicPartition("jobs", 1): 0, TopicPartition("other", 0): 5}
QUEUE = Group(id="workers", topics=["jobs"], type="share")
READER = Group(id="billing", topics=["jobs"])


class Asked:
    """Answers what it was asked to, one answer a question, the last one again and again."""

    def __init__(self, *answers: dict[TopicPartition, int] | None) -> None:
        self.answers = list(answers)

    def _answer(self, group: str) -> dict[TopicPartition, int]:
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if answer is None:
            raise LabError(f"no coordinator of {group}")
        return answer

    share_lags = committed = _answer


def drained(group: Group, asked: Any, timeout_s: float = 5) -> bool:
    """Whether it was drained in time."""
    (done,) = await_groups(asked, [group], lambda _: ENDS, timeout_s).values()
    return done


def test_a_share_group_is_drained_when_nothing_is_left() -> None:
    """After a coordinator was found, and records were done with; an empty partition may be unknown."""
    assert drained(QUEUE, Asked(None, {}, {TopicPartition("jobs", 0): 3}, {TopicPartition("jobs", 0): 0}))


@pytest.mark.parametrize("lags", [{}, {TopicPartition("jobs", 0): 1}, {TopicPartition("jobs", 1): 0}])
def test_a_share_group_with_anything_left_is_not_drained(lags: dict[TopicPartition, int]) -> None:
    """Nor one that has not begun with a partition that has records."""
    assert not drained(QUEUE, Asked(lags), timeout_s=0)


def test_another_group_is_drained_when_it_has_committed_to_the_end() -> None:
    """Lags are not asked for."""
    assert drained(READER, Asked({TopicPartition("jobs", 0): 9}, {TopicPartition("jobs", 0): 10}))
    assert not drained(READER, Asked({TopicPartition("jobs", 0): 9}), timeout_s=0)
