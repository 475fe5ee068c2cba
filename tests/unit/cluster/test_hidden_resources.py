"""What is not listed is not taken for something that is not there."""

from __future__ import annotations

import pytest

from kaput.cluster.admin.client import hidden_resources
from kaput.errors import LabError


def test_describe_permission_on_the_cluster_hides_nothing() -> None:
    """And so does everybody where there are no rules, or nobody says."""
    assert hidden_resources("User:kaput", ["ALTER", "DESCRIBE"], False) is None
    assert hidden_resources("User:kaput", None, False) is None


def test_partial_permissions_report_hidden_resources() -> None:
    """Who, and what is missing."""
    said = hidden_resources("User:app", ["IDEMPOTENT_WRITE"], True)
    hidden = "groups, and topics this user may not describe"
    assert said == f"{hidden}: User:app is not allowed to Describe the cluster"


def test_no_permissions_are_an_error() -> None:
    """That would be a clean bill of health."""
    with pytest.raises(LabError, match="User:nobody is not allowed to Describe the cluster or any"):
        hidden_resources("User:nobody", [], False)
