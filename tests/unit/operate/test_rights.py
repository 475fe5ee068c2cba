"""What is not listed is not taken for something that is not there."""

from __future__ import annotations

import pytest

from kaput.errors import LabError
from kaput.operate.rights import unseen


def test_who_may_describe_the_cluster_sees_all() -> None:
    """And so does everybody where there are no rules, or nobody says."""
    assert unseen("User:kaput", ["ALTER", "DESCRIBE"], False) is None
    assert unseen("User:kaput", None, False) is None


def test_who_sees_a_part_is_told_that_it_is_one() -> None:
    """Who, and what is missing."""
    said = unseen("User:app", ["IDEMPOTENT_WRITE"], True)
    assert said == "groups, and topics of others: User:app is not allowed to Describe the cluster"


def test_who_sees_nothing_judges_nothing() -> None:
    """That would be a clean bill of health."""
    with pytest.raises(LabError, match="User:nobody is not allowed to Describe the cluster, nor any topic"):
        unseen("User:nobody", [], False)
