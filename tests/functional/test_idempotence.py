"""Kafka's own idempotence against retries that a real fault causes, and filters on what it stores."""

from __future__ import annotations

import pytest

from driving import Kaput
from kaput.clients.dedup.scoring import FILTERS, Score, first_copies, read_run_log, score_of


@pytest.mark.long
def test_retries_without_idempotence_are_stored_twice_and_filters_drop_the_copies(kaput: Kaput) -> None:
    """Every duplicate that kaput counts is a copy in the log; ids and marks drop exactly those."""
    result = kaput.run("idempotence-compare-off")
    assert result.findings["verdict"] == "held", result.findings["reasons"]
    log = read_run_log(result.folder)
    copies = len(log) - result.findings["totals"]["sent"]
    assert copies == first_copies(log).count(False) >= result.count("duplicate") > 0
    for name in ("every id", "mark per topic-partition"):
        assert score_of(FILTERS[name](), log) == Score(0, 0), name


@pytest.mark.long
@pytest.mark.parametrize("way", ["on", "transactions"])
def test_idempotent_producers_store_each_message_once(kaput: Kaput, way: str) -> None:
    """The same fault; what readers are shown has no copy of anything."""
    result = kaput.run(f"idempotence-compare-{way}")
    assert result.findings["verdict"] == "held", result.findings["reasons"]
    assert result.count("duplicate") == result.count("lost") == 0
    assert all(first_copies(read_run_log(result.folder)))
    assert [fault["bit"] for fault in result.findings["faults"]] == [True, True]
