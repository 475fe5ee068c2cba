"""What a test's own producer was acknowledged, against what is stored."""

from __future__ import annotations

from typing import Any

import pytest

from kaput.api.counting import Counted, compared, count
from kaput.errors import UsageError

NO_LAB: Any = None


def test_lost_and_duplicate_keys_are_counted() -> None:
    """A key that nothing acknowledged is neither, and bytes are the same as text."""
    found = compared(["a", "b", "b", "unacknowledged"], ["a", b"b", "c"])
    assert found == Counted(3, 4, lost=1, duplicates=1, lost_examples=["c"], duplicate_examples=["b"])


def test_examples_are_few_and_a_key_is_lost_once() -> None:
    found = compared([], [*map(str, range(30)), "0"])
    assert (found.acked, found.lost, found.lost_examples) == (31, 30, [str(n) for n in range(10)])


@pytest.mark.parametrize(
    ("acked", "by", "sentence"), [([], "id", "neither key nor value"), ("a", "key", "'a' is one key, not a")]
)
def test_mistakes_are_named_before_anything_is_read(acked: Any, by: str, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        count(NO_LAB, "orders", acked, by)
