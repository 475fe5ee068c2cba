"""The words that every stage shares are the same everywhere."""

from __future__ import annotations

import pytest

from kaput.analysis.questions import questions
from kaput.scenario.anomalies import ANOMALIES
from kaput.scenario.fault_kinds import KINDS, OTHER_WORDS, meant_by
from kaput.scenario.model import Expect
from kaput.scenario.nearest import nearest


def test_every_anomaly_has_an_expectation_and_a_description() -> None:
    """A scenario may expect a number of it, and an example has a sentence."""
    times = {"standstill_ms", "unavailable_ms", "election_ms", "ack_p99_ms", "end_to_end_p99_ms"}
    no_anomalies = {"verdict", "mirror", "slump", "standstill", "stuck", *times}
    expected = {name.replace("_", "-") for name in Expect.model_fields.keys() - no_anomalies}
    told = {name for question in questions() for name in question.stories}
    assert expected == set(ANOMALIES) == told


@pytest.mark.parametrize(
    ("word", "near"),
    [
        ("elect-prefered", ["elect-preferred"]),
        ("preferred-elect", ["elect-preferred"]),
        ("leaders-move", ["move-leader"]),
        ("rollingrestart", ["rolling-restart"]),
        ("kil", ["kill"]),
        ("sotp", ["stop"]),
        ("elect-replicas", ["move-replicas"]),
        ("defect-reports", []),
    ],
)
def test_misspelt_word_leads_to_one_that_has_a_part_of_it(word: str, near: list[str]) -> None:
    """In whatever order; a word that only looks alike as a whole is not proposed."""
    assert nearest(word, KINDS) == near


def test_what_others_call_a_fault_leads_to_it() -> None:
    """Each of them, and none is a fault itself."""
    assert set(OTHER_WORDS.values()) <= set(KINDS) and not set(OTHER_WORDS) & set(KINDS)


@pytest.mark.parametrize(
    ("word", "fault"),
    [
        ("topic-delete", "delete-topic"),
        ("Delete_Topics", "delete-topic"),
        ("revoke-acl", "deny"),
        ("partition-reassignment", "move-replicas"),
        ("oom-killer", "kill"),
        ("move-partition", "move-replicas"),
        ("elect-prefered", "elect-prefered"),
        ("timestamps", "timestamps"),
    ],
)
def test_other_words_are_known_in_any_order(word: str, fault: str) -> None:
    """And with more parts; a fault that is only misspelt stays as it is."""
    assert meant_by(word) == fault
