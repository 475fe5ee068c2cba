"""A run in other tools' forms: what Jepsen's checker would be told, and CSV."""

from __future__ import annotations

import csv
import io
import random
import re
from collections import Counter, defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow.parquet as pq
import pytest

from fakes.called import Said, called
from fakes.histories import History as Handmade
from fakes.histories import at
from fakes.in_process import InProcess
from kaput.analysis.pipeline import analyse
from kaput.evidence.folder import RunFolder
from kaput.evidence.reading import check
from kaput.export.jepsen import History, in_order
from kaput.export.tables import present, write_csv

_LINE = re.compile(
    r"\{:index (\d+), :time (-?\d+), :type :(invoke|ok|fail|info), :process (\d+), :f :(send|poll|assign), "
    r":value (\[.*?\])("
    r", :error \"(?:[^\"\\]|\\.)*\"|, :seek-to-beginning\? true"
    r"|, :rebalance-log \[\{:keys \[[\d ]+\]\}\])?\}\n"
)


class Op(NamedTuple):
    """One operation, as Jepsen has it."""

    index: int
    time: int
    type: str
    process: int
    f: str
    value: Any
    more: str


def edn(text: str) -> Any:
    """As much of EDN as a value has: vectors, maps from keys to vectors, numbers, nil, :send and :poll."""
    python = re.sub(r":(send|poll)", r'"\1"', text).replace("nil", "None").replace("{", "{ ")
    python = re.sub(r"(?<=[\w\]\"}]) (?=[\w\[\"{])", ", ", python)
    python = re.sub(r"(?<=\{ )(\d+), |(?<=\], )(\d+), (?=\[)(?=[^{}]*\})", _pair, python)
    return eval(python, {"__builtins__": {}})


def _pair(match: re.Match[str]) -> str:
    return f"{match[1] or match[2]}: "


def told(folder: RunFolder, tmp_path: Path, chunk_rows: int = 1 << 19) -> tuple[list[Op], History]:
    """Every line read back, and what holds of any history."""
    scratch = tmp_path / "scratch"
    scratch.mkdir(exist_ok=True)
    history = History(check(folder), scratch, chunk_rows)
    ops = []
    for line in history.lines():
        match = _LINE.fullmatch(line)
        assert match is not None, line
        index, ns, kind, process, f, value, more = match.groups()
        ops.append(Op(int(index), int(ns), kind, int(process), f, edn(value), more or ""))
    assert not list(scratch.iterdir())
    assert [op.index for op in ops] == list(range(len(ops))) and history.operations == len(ops)
    assert all(before.time <= after.time for before, after in pairwise(ops))
    under_way: dict[int, Op] = {}
    crashed: set[int] = set()
    for op in ops:
        assert op.process not in crashed
        if op.type == "invoke":
            assert op.process not in under_way
            under_way[op.process] = op
        else:
            assert under_way.pop(op.process).f == op.f
            crashed |= {op.process} if op.type == "info" else set()
    assert not under_way
    return ops, history


def small() -> Handmade:
    """Two partitions; every outcome; a group whose member gives a partition up."""
    history = Handmade(topics=[{"name": "orders", "partitions": 2}], groups={"billing": True})
    history.acked(0, 0, 10).acked(0, 1, 5, partition=1)
    history.sent(0, 2, None, "unknown", partition=None, done_ns=None, error='lost "it"')
    history.stored(11, 0, 2)
    history.sent(0, 3, None, "failed", partition=None)
    history.sent(1, 0, 12, attempt_ns=at(0), done_ns=at(9))
    history.stored(12, 1, 0).stored(13, None, None).stored(14, None, None, intact=False)
    history.handed(10, 0, 0, 20).handed(11, 0, 2, 20).handed(5, 0, 1, 20, partition=1)
    for ms, kind in ((15, "assigned"), (25, "revoked")):
        row = {"group": "billing", "member": "m1", "kind": kind, "topic": "orders", "partition": 0}
        history.add("group_events", **row, at_ns=at(ms))
    for partition, end in ((0, 15), (1, 6)):
        history.add("end_offsets", topic="orders", partition=partition, end_offset=end, drained_to=end)
    return history


def test_a_history_has_every_send_and_every_poll(tmp_path: Path) -> None:
    """With its offsets, keys and outcomes, as jepsen.tests.kafka has them."""
    ops, history = told(small().write(tmp_path / "run"), tmp_path)
    assert history.keys == ["orders/0", "orders/1"]
    done = {(op.value[0][1], op.type): op for op in ops if op.f == "send" and op.type != "invoke"}
    sends = [(op.type, op.value) for op in ops if op.f == "send" and op.type != "invoke"]
    other = 1 << 40
    assert sorted(sends, key=str) == sorted(
        [
            ("ok", [["send", 0, [10, 0]]]),
            ("ok", [["send", 1, [5, 1]]]),
            ("info", [["send", 0, 2]]),
            ("fail", [["send", 0, 3]]),
            ("ok", [["send", 0, [12, other]]]),
        ],
        key=str,
    )
    assert done[0, "info"].more == ', :error "lost \\"it\\""'
    polls = [op.value for op in ops if op.f == "poll" and op.type == "ok"]
    assert polls == [
        [["poll", {0: [[10, 0], [11, 2]], 1: [[5, 1]]}]],
        [["poll", {0: [[10, 0], [11, 2], [12, other]], 1: [[5, 1]]}]],
    ]
    assigned = [(op.value, bool(op.more)) for op in ops if op.f == "assign" and op.type == "ok"]
    assert assigned == [([0], False), ([], False), ([0, 1], True)]
    assert history.skipped == 2


def test_a_message_ends_as_its_transaction_does(tmp_path: Path) -> None:
    """What was aborted has failed and is not there for a reader; who read it all the same has read it."""
    history = Handmade(groups={"billing": True})
    ended = {"transactional_id": "t", "producer": 0, "begin_ns": at(0), "end_ns": at(9)}
    for number, outcome in enumerate(("aborted", "committed", "unknown")):
        first = 2 * number
        history.add(
            "transactions", transaction=number, first_seq=first, last_seq=first + 1, outcome=outcome, **ended
        )
    for seq in range(7):
        history.acked(0, seq, seq)
        history.rows["log"][-1]["visible"] = seq > 1
    history.handed(0, 0, 0, 20)
    history.add("end_offsets", topic="orders", partition=0, end_offset=7, drained_to=7)
    ops, _ = told(history.write(tmp_path / "run"), tmp_path)
    kinds = [
        op.type for op in sorted(ops, key=lambda op: str(op.value)) if op.f == "send" and op.type != "invoke"
    ]
    assert Counter(kinds) == {"fail": 2, "ok": 3, "info": 2}
    polls = [op.value[0][1][0] for op in ops if op.f == "poll" and op.type == "ok"]
    assert polls == [[[0, 0]], [[n, n] for n in range(2, 7)]]


def read_by_key(ops: list[Op]) -> list[dict[int, list[list[int]]]]:
    """What each poll was handed."""
    return [op.value[0][1] for op in ops if op.f == "poll" and op.type == "ok"]


def test_history_has_no_read_without_a_send(tmp_path: Path) -> None:
    """Jepsen's checker ends where a value has no writer. Where a message is that was sent to no known
    partition, a reader may tell as well as the log."""
    history = Handmade(topics=[{"name": "orders", "partitions": 3}], groups={"billing": True})
    history.acked(0, 0, 0).acked(0, 1, 1)
    for seq in (2, 3):
        history.sent(0, seq, None, "unknown", partition=None)
    history.stored(5, 0, 2, partition=2).stored(4, 0, 2, partition=1)  # one and the same in two partitions
    history.handed(9, 0, 3, 20, partition=2)  # not stored any more
    history.stored(2, 0, 4).handed(2, 0, 4, 20).stored(3, 7, 0).handed(3, 7, 0, 20)  # sent by nobody
    ops, told_of = told(history.write(tmp_path / "run"), tmp_path)
    sends = {op.value[0][2]: op.value[0][1] for op in ops if op.f == "send" and op.type == "info"}
    assert sends == {2: 1, 3: 2}
    assert read_by_key(ops) == [{2: [[9, 3]]}, {0: [[0, 0], [1, 1]], 1: [[4, 2]]}]
    assert told_of.skipped == 5


def test_read_uncommitted_group_may_read_aborted_messages(tmp_path: Path) -> None:
    """A group with read_committed is."""
    history = Handmade(groups={"ledger": True, "probe": True})
    for seq in range(4):
        history.acked(0, seq, seq)
        for group in history.groups:
            history.handed(seq, 0, seq, 20 if group == "ledger" else 21, group=group, member=group)
    history.transaction(0, 0, 1, "aborted").transaction(1, 2, 3)
    folder = history.write(tmp_path / "run")
    manifest = folder.read_manifest()
    groups = [
        g.model_copy(update={"isolation": f"read_{word}"})
        for g, word in zip(manifest.groups, ("committed", "uncommitted"), strict=True)
    ]
    folder.write_manifest(manifest.model_copy(update={"groups": groups}))
    ops, told_of = told(folder, tmp_path)
    every = [[n, n] for n in range(4)]
    assert read_by_key(ops) == [{0: every}, {0: every[2:]}, {0: every}]
    assert told_of.skipped == 0


def test_share_group_has_no_order_in_the_history(tmp_path: Path) -> None:
    """Neither between polls, by an assignment, nor within one, by a log of rebalances."""
    history = Handmade(groups={"billing": True})
    for seq in range(4):
        history.acked(0, seq, seq)
    for ms, offsets in ((20, (0, 3)), (30, (1, 2))):
        for offset in offsets:
            history.shared("acquired", offset, ms, 1)
    ops, _ = told(history.write(tmp_path / "run"), tmp_path)
    done = [(op.f, op.value, op.more) for op in ops if op.type == "ok" and op.f != "send"][:4]
    log = ", :rebalance-log [{:keys [0]}]"
    assert done == [
        ("assign", [], ""),
        ("poll", [["poll", {0: [[0, 0], [3, 3]]}]], log),
        ("assign", [], ""),
        ("poll", [["poll", {0: [[1, 1], [2, 2]]}]], log),
    ]


def test_send_goes_to_the_process_with_the_highest_offset(tmp_path: Path) -> None:
    """So that what falls behind an earlier acknowledgement does so within a process, where Jepsen looks."""
    history = Handmade(topics=[{"name": "orders", "partitions": 2}])
    history.sent(0, 0, 8, attempt_ns=at(0), done_ns=at(5)).sent(0, 1, 9, attempt_ns=at(1), done_ns=at(2))
    history.sent(0, 2, 0, attempt_ns=at(3), done_ns=at(4), partition=1)
    history.sent(0, 3, 7, attempt_ns=at(6), done_ns=at(7)).sent(0, 4, 10, attempt_ns=at(8), done_ns=at(9))
    ops, _ = told(history.write(tmp_path / "run"), tmp_path)
    process = {op.value[0][2][1]: op.process for op in ops if op.f == "send" and op.type == "ok"}
    assert process[3] == process[1] and process[4] == process[0]
    assert len({process[0], process[1], process[2]}) == 3


@pytest.mark.parametrize("chunk_rows", [7, 50, 1 << 19])
def test_history_does_not_depend_on_memory_or_row_order(chunk_rows: int, tmp_path: Path) -> None:
    """And whatever the order of rows in the files."""
    chance = random.Random(3)
    history = Handmade(topics=[{"name": "orders", "partitions": 3}], groups={"billing": True})
    for seq in range(300):
        history.acked(seq % 2, seq // 2, seq, partition=seq % 3, attempt_ns=at(seq), done_ns=at(seq + 7))
        history.handed(seq, seq % 2, seq // 2, 400 + seq // 10, partition=seq % 3)
    for rows in history.rows.values():
        chance.shuffle(rows)
    ops, _ = told(history.write(tmp_path / "run"), tmp_path, chunk_rows)
    sent = [op for op in ops if op.f == "send" and op.type == "ok"]
    assert [op.value[0][2][0] for op in sent] == list(range(300))
    # Seven ms on their way, one each ms: at most two of a producer's to a partition.
    assert len({op.process for op in sent}) == 12
    read: dict[int, list[int]] = defaultdict(list)
    for op in ops:
        if op.f == "poll" and op.type == "ok" and op.time < ops[-1].time:
            for key, pairs in op.value[0][1].items():
                read[key] += [offset for offset, _ in pairs]
    assert {key: sorted(offsets) for key, offsets in read.items()} == {
        key: list(range(key, 300, 3)) for key in range(3)
    }


def test_rows_are_merged_in_order(tmp_path: Path) -> None:
    """Chunks of a few rows, equal rows among them."""
    numbers = np.random.default_rng(5).integers(0, 40, (8, 2000))
    batches = np.array_split(numbers, 13, axis=1)
    found = list(in_order(batches, tmp_path, 100))
    assert [row[:3] for row in found] == sorted(numbers[:3].T.tolist())
    assert sorted(found) == sorted(numbers.T.tolist())


def test_a_table_as_csv(tmp_path: Path) -> None:
    """Nulls are empty, lists are JSON."""
    history = small()
    events = {"broker": 1, "topic": "orders", "partition": 0, "leader": 1, "leader_epoch": 0}
    history.add("cluster_events", kind="isr", **events, isr=[1, 2], at_ns=at(1), source="x")
    folder = history.write(tmp_path / "run")
    rows = {name: read(folder, name) for name in ("sends", "cluster_events")}
    assert [row["outcome"] for row in rows["sends"]] == ["acked", "acked", "unknown", "failed", "acked"]
    assert rows["sends"][2]["done_ns"] == "" and rows["sends"][2]["error"] == 'lost "it"'
    assert rows["cluster_events"][0]["isr"] == "[1, 2]"
    assert {"sends", "log", "deliveries", "group_events", "end_offsets"} <= set(present(folder))


def test_the_ledger_as_csv(tmp_path: Path) -> None:
    """What the analysis left: a column for each group."""
    folder = small().write(tmp_path / "run")
    analyse(check(folder), InProcess(), ledger="messages")
    rows = read(folder, "ledger")
    assert len(rows) == 5
    fates = {
        (row["producer"], row["seq"]): (row["outcome"], row["stored"], row["delivered.billing"])
        for row in rows
    }
    assert fates["0", "1"] == ("acked", "1", "1") and fates["0", "3"] == ("failed", "0", "0")
    assert "ledger" in present(folder)


def read(folder: RunFolder, name: str) -> list[dict[str, str]]:
    """One table, as a spreadsheet reads it."""
    out = io.BytesIO()
    rows = write_csv(folder, name, out)
    found = list(csv.DictReader(io.StringIO(out.getvalue().decode())))
    assert len(found) == rows
    return found


def test_the_command_writes_files_or_stdout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """And nothing over what is there; the ledger of a run that was not judged is a mistake."""

    def export(*options: str, status: int = 0) -> Said:
        done = called(["export", *options], monkeypatch, capsys)
        assert done.status == status, done.stderr
        return done

    folder = small().write(tmp_path / "run")
    run = str(folder.path)
    out = tmp_path / "history.edn"
    assert (
        "keys: 0 is orders/0, 1 is orders/1; 2 records"
        in export(run, "--format", "jepsen", "--out", str(out)).stderr
    )
    assert out.read_text() == export(run, "--format", "jepsen").stdout
    assert (
        "already exists, and is not overwritten; give a new name"
        in export(run, "--format", "jepsen", "--out", str(out), status=2).stderr
    )
    assert export(run, "--format", "csv", "--table", "sends").stdout.count("\n") == 6
    assert "kaput analyze makes it" in export(run, "--format", "csv", status=2).stderr
    assert "did you mean sends?" in export(run, "--format", "csv", "--table", "send", status=2).stderr
    assert "not a run folder" in export(str(tmp_path), "--format", "csv", status=2).stderr
    below_a_file = str(out / "csv")
    refused = export(run, "--format", "csv", "--out", below_a_file, status=2)
    assert refused.stderr == f"kaput: {below_a_file}: cannot be created (Not a directory)\n"
    export(run, "--format", "csv", "--out", str(tmp_path / "csv"))
    assert sorted(path.stem for path in (tmp_path / "csv").iterdir()) == sorted(present(folder))
    assert pq.read_metadata(next(folder.table("sends").glob("*.parquet"))).num_rows == 5


def test_kept_message_is_info_and_refused_message_is_fail(tmp_path: Path) -> None:
    """So that the one is open, and the other has failed."""
    history = Handmade().acked(0, 0, 0).sent(0, 1, None, "kept").sent(0, 2, None, "refused").stored(1, 0, 1)
    ops, _ = told(history.read_to_end().write(tmp_path / "run"), tmp_path)
    ends = [(op.value[0][2], op.type) for op in ops if op.f == "send" and op.type in ("info", "fail")]
    assert ends == [(1, "info"), (2, "fail")]
