"""Which cases follow from which overwritten message, on frames of a few rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest

from kaput.analysis.engine.question import SumPart
from kaput.analysis.facts.leader_history import LeaderHistory
from kaput.analysis.questions import consequences
from kaput.analysis.questions.consequences import PASSED, SAME_OFFSET, STEPS, Consequences
from kaput.analysis.questions.losses import LOSS
from kaput.core import MS
from kaput.verdict.facts import Circumstances

Rows = Sequence[Mapping[str, Any]]

_CASE = {"group": 5, "place": 0, "offset": 2, "n": 1}
_STEP = {
    **{"group": 5, "place": 0, "other_offset": 3, "before_producer": 0, "before_seq": 3},
    **{"n": 1, "at_ns": 300 * MS, "offset": 2},
}
_RECORD = _CASE | {"accepted_ns": 10 * MS, "acquired_ns": 300 * MS}
_AGAIN = _CASE | {"again_ns": 300 * MS, "committed_to": 0, "flag": True}
_MODELS = {
    **dict.fromkeys(STEPS, _STEP),
    **dict.fromkeys(PASSED, _CASE),
    **dict.fromkeys(SAME_OFFSET, _RECORD),
    "processed-twice": _CASE,
    "redelivered": _AGAIN,
}


def _ack(offset: int = 2, seq: int | None = None, **changed: Any) -> dict[str, Any]:
    """An acknowledged message that was overwritten at 100 ms, by an epoch that begins at offset 2."""
    return {
        **{"producer": 0, "seq": offset if seq is None else seq, "topic": 0, "place": 0, "offset": offset},
        **{"since_ns": 100 * MS, "later_start": 2, "cause": "unclean-election"},
        **dict.fromkeys(Circumstances._fields, False),
        **changed,
    }


def _handed(offset: int = 2, seq: int | None = None, **changed: Any) -> dict[str, Any]:
    """The same, handed to group 5."""
    return {"group": 5, **_ack(offset, seq), **changed}


def _frame(rows: Rows, model: Mapping[str, Any]) -> pl.DataFrame:
    schema = pl.DataFrame([model], schema_overrides={"since_ns": pl.Int64, "later_start": pl.Int64}).schema
    return pl.DataFrame(list(rows), schema=schema, orient="row")


def _cases(cases: Mapping[str, Rows]) -> dict[str, pl.DataFrame]:
    return {
        name: _frame([model | row for row in cases.get(name, ())], model) for name, model in _MODELS.items()
    }


def found(
    cases: Mapping[str, Rows],
    handed: Rows = (),
    acks: Rows = (),
    single: Mapping[str, Rows] | None = None,
) -> list[tuple[str, str, int]]:
    """Each case, or part of one, that follows from such a message: its name, why, and how many it is."""
    apart = {name: _frame([_CASE | row for row in rows], _CASE) for name, rows in (single or {}).items()}
    gone, acknowledged = _frame(handed, _handed()), _frame(acks, _ack())
    rows = consequences.consequences_of(_cases(cases), gone, acknowledged, apart, ())
    assert rows.columns == ["name", "group", *LOSS, "n"]
    assert rows["group"].unique().to_list() in ([], [5])
    return sorted(rows.select("name", "cause", "n").rows())


ELECTION = "unclean-election"


@pytest.mark.parametrize("name", SAME_OFFSET)
def test_anomaly_follows_from_an_overwritten_delivery_at_its_offset(name: str) -> None:
    """There, and at no offset next to it."""
    assert found({name: [{"offset": 2}]}, handed=[_handed(2)]) == [(name, ELECTION, 1)]
    assert found({name: [{"offset": 3}]}, handed=[_handed(2)]) == []
    assert found({name: [{"offset": 1}]}, handed=[_handed(2)]) == []


@pytest.mark.parametrize("name", [name for name in SAME_OFFSET if name != "processed-twice"])
def test_share_anomaly_follows_from_an_overwritten_ack_at_its_offset(name: str) -> None:
    """There, and at no offset next to it; in every group that has such a case."""
    assert found({name: [{"offset": 2}]}, acks=[_ack(2)]) == [(name, ELECTION, 1)]
    assert found({name: [{"offset": 3}]}, acks=[_ack(2)]) == []
    assert found({name: [{"offset": 3}]}, acks=[_ack(2)], handed=[_handed(4)]) == []


@pytest.mark.parametrize(
    ("accepted_ms", "acquired_ms", "follows"),
    [(10, 300, True), (10, 90, False), (110, 300, False), (100.9, 300, True), (10, 100.1, True)],
)
def test_overwrite_between_accept_and_reacquisition_explains_it(
    accepted_ms: float, acquired_ms: float, follows: bool
) -> None:
    """At 100.5 ms; what happens in the same ms may have come first."""
    case = {"accepted_ns": int(accepted_ms * MS), "acquired_ns": int(acquired_ms * MS)}
    rows = found({"double-accept": [case]}, acks=[_ack(2, since_ns=int(100.5 * MS))])
    assert rows == [("double-accept", ELECTION, 1)] * follows


def test_no_consequences_without_overwritten_messages() -> None:
    """Cases of every name, and an empty answer."""
    assert found({name: [{}] for name in _MODELS}) == []


def test_ack_alone_does_not_explain_a_pipe_anomaly() -> None:
    """What it was handed is on record."""
    assert found({"processed-twice": [{}]}, acks=[_ack(2)]) == []


def test_anomaly_of_a_single_record_is_not_a_consequence() -> None:
    """Of offsets 2 to 4 the first; the rest is cut where one of the messages was overwritten."""
    handed = [_handed(2), _handed(3), _handed(4)]
    rows = found({"double-accept": [{"n": 3}]}, handed, single={"double-accept": [{"offset": 2}]})
    assert rows == [("double-accept", ELECTION, 1)] * 2


def test_least_explained_message_at_an_offset_decides() -> None:
    """A case at an offset that had two, and a step from a message with two acknowledgements, count once."""
    handed = [_handed(2), _handed(2, 8, cause="unexplained")]
    assert found({"processed-twice": [{}]}, handed) == [("processed-twice", "unexplained", 1)]
    acks = [_ack(2), _ack(2, 8, cause="unexplained")]
    assert found({"double-accept": [{}]}, acks=acks) == [("double-accept", "unexplained", 1)]
    handed = [_handed(3), _handed(3, cause="unexplained")]
    assert found({"nonmonotonic-poll": [{}]}, handed) == [("nonmonotonic-poll", "unexplained", 1)]


def test_equally_explained_messages_are_ordered_by_producer() -> None:
    """So that a second analysis says the same."""
    handed = [_handed(2, producer=producer) for producer in (3, 1, 2, 0)]
    cases = _cases({"processed-twice": [{}]})
    rows = consequences.consequences_of(cases, _frame(handed, _handed()), _frame([], _ack()), {}, ())
    assert rows["producer"].to_list() == [0]


@pytest.mark.parametrize(
    ("offset", "n", "follows"), [(1, 1, 0), (2, 1, 1), (3, 1, 1), (4, 1, 1), (5, 1, 0), (0, 9, 3), (6, 1, 0)]
)
def test_passed_offsets_follow_within_the_overwritten_range(offset: int, n: int, follows: int) -> None:
    """From where the epoch begins (2) to the last offset that the group was handed (4)."""
    for name in PASSED:
        rows = found({name: [{"offset": offset, "n": n}]}, [_handed(3), _handed(4)])
        assert rows == [(name, ELECTION, follows)] * (follows > 0)


@pytest.mark.parametrize("start", [None, 6])
def test_unknown_epoch_start_covers_only_the_offset_itself(start: int | None) -> None:
    """Then only the offset itself counts."""
    rows = found({"unseen": [{"offset": 0, "n": 9}]}, [_handed(3, later_start=start)])
    assert rows == [("unseen", ELECTION, 1)]


@pytest.mark.parametrize(("since_ms", "follows"), [(90, True), (100.9, True), (101, False), (None, True)])
def test_poll_step_follows_only_from_an_earlier_overwrite(since_ms: float | None, follows: bool) -> None:
    """By 100.1 ms; in the same ms it may have come first, and so it may where it is not known when."""
    since_ns = None if since_ms is None else int(since_ms * MS)
    step = {"at_ns": int(100.1 * MS)}
    rows = found({"nonmonotonic-poll": [step]}, [_handed(3, since_ns=since_ns)])
    assert rows == [("nonmonotonic-poll", ELECTION, 1)] * follows


def test_poll_step_follows_only_from_the_preceding_message() -> None:
    """Not from another one at that offset."""
    assert found({"poll-skip": [{"before_seq": 9}]}, [_handed(3)]) == []


@pytest.mark.parametrize(("offset", "n", "follows"), [(3, 1, 0), (4, 1, 1), (6, 1, 1), (7, 1, 0), (0, 20, 3)])
def test_records_jumped_over_after_an_overwrite_are_unseen(offset: int, n: int, follows: int) -> None:
    """From offset 3, whose message was overwritten alone, to offset 7."""
    cases = {"poll-skip": [{"offset": 7}], "unseen": [{"offset": offset, "n": n}]}
    rows = found(cases, [_handed(3, later_start=3)])
    expected = follows + (offset <= 3 < offset + n)
    parts = [row for row in rows if row[0] == "unseen"]
    assert sum(row[2] for row in parts) == expected
    assert [row for row in rows if row[0] == "poll-skip"] == [("poll-skip", ELECTION, 1)]


@pytest.mark.parametrize(
    ("again", "follows"),
    [
        ({"offset": 2}, True),
        ({"offset": 4}, True),  # between the start and what it was handed
        ({"offset": 5}, False),
        ({"offset": 1}, False),
        ({"offset": 1, "committed_to": 3}, True),  # it went back behind its commit
        ({"offset": 1, "committed_to": 2}, False),
        ({"offset": 2, "again_ns": 99 * MS}, False),
        ({"offset": 2, "again_ns": int(100.1 * MS)}, True),
        ({"offset": 2, "flag": False}, False),
    ],
)
def test_redelivery_after_commit_follows_from_an_earlier_overwrite(
    again: dict[str, Any], follows: bool
) -> None:
    """Offsets 2 to 4, at 100.9 ms."""
    handed = [_handed(4, since_ns=int(100.9 * MS))]
    assert found({"redelivered": [again]}, handed) == [("redelivered", ELECTION, 1)] * follows


def test_unknown_overwrite_time_explains_a_redelivery() -> None:
    """What was delivered behind a commit follows then."""
    rows = found({"redelivered": [{}]}, [_handed(2, since_ns=None)])
    assert rows == [("redelivered", ELECTION, 1)]


def _moments(groups: Sequence[int]) -> list[tuple[int, ...]]:
    rows = consequences.moments(_frame([_handed(7)], _handed()), _frame([_ack(2)], _ack()), groups)
    assert rows.columns == ["group", "place", "offset", "since_ns"]
    return sorted(rows.rows())


def test_share_groups_may_have_received_any_acked_message() -> None:
    """Each of them, besides what a group was handed on record."""
    handed = (5, 0, 7, 100 * MS)
    assert _moments(()) == [handed]
    assert _moments((5, 6)) == [(5, 0, 2, 100 * MS), handed, (6, 0, 2, 100 * MS)]


def _of_a_task(cases: Mapping[str, Rows], handed: Rows = (), acks: Rows = ()) -> list[tuple[str, int]]:
    """What the question finds in a task that has no share groups' events: names, and how many."""
    more = {"later_epoch": 1, "borne_out": False}
    ack = _ack() | more
    schema = pl.DataFrame([ack], schema_overrides={"later_epoch": pl.Int64}).schema
    frames = _cases(cases)
    frames["unprocessed"] = _frame(
        [_CASE | {"flag": False} | row for row in cases.get("unprocessed", ())], _CASE | {"flag": False}
    )
    empty = _frame([], _handed())
    places = SimpleNamespace(
        known=SimpleNamespace(share_groups={5: None}, drained=(), acks_1=(), leader_history=LeaderHistory()),
        cases={name: rows for name, rows in frames.items() if name != "unseen"},
        tables={"unseen": frames["unseen"], "aborted_reads": empty},
        with_causes=lambda rows: rows,
        overwritten=_frame(handed, _handed()),
        explained_acks=pl.DataFrame([ack | row for row in acks], schema=schema),
        log=pl.DataFrame(schema=dict.fromkeys(("place", "offset", "n"), pl.Int64)),
        share_events=_events(),
    )
    (part,) = Consequences().of_places(places)  # type: ignore[arg-type]
    assert isinstance(part, SumPart)
    return sorted(part.rows.select("name", "n").rows())


def _events() -> pl.DataFrame:
    numbers = ("group", "place", "offset", "n", "at_ns", "member", "delivery_count", "count")
    return pl.DataFrame(schema=dict.fromkeys((*numbers, "kind"), pl.Int64))


@pytest.mark.parametrize(
    ("ack", "follows"), [({}, True), ({"later_epoch": None}, False), ({"borne_out": True}, False)]
)
def test_only_acks_overwritten_by_a_later_epoch_explain(ack: dict[str, Any], follows: bool) -> None:
    """Not one without such an epoch, nor one that the log has where it was acknowledged."""
    assert _of_a_task({"double-accept": [{}]}, acks=[ack]) == [("double-accept", 1)] * follows


def test_input_with_lost_outputs_is_ruled_by_its_outputs_alone() -> None:
    """The other one at offsets that the group has passed follows from what it had read there."""
    cases = {"unprocessed": [{"offset": 2, "flag": True}, {"offset": 3, "flag": False}]}
    assert _of_a_task(cases, [_handed(4)]) == [("unprocessed", 1)]
    assert _of_a_task({"unprocessed": cases["unprocessed"][:1]}, [_handed(4)]) == []
