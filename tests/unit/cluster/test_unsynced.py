"""What was not synced is found and cut, by files as Kafka leaves them."""

from __future__ import annotations

from pathlib import Path

import pytest

from fakes.segments import batch, write_segment
from kaput.cluster.segments import log_end
from kaput.errors import UnknownFormat
from kaput.faults.power_loss import cut, tails

THREE = [b"a", b"b", b"c"]


def _said(log: Path, *lines: str) -> Path:
    log.write_text("".join(f"[2026-11-22 12:00:00,000] {line}\n" for line in lines))
    return log


def _flushing(place: str, offset: int) -> str:
    return (
        f"DEBUG [UnifiedLog partition={place}, dir=/data] Flushing log up to offset {offset} (exclusive)"
        f" with recovery point {offset}, last flushed: 1,  current time: 2, unflushed: 3 (UnifiedLog)"
    )


def _checkpoint(data: Path, *lines: str) -> None:
    text = f"0\n{len(lines)}\n" + "".join(f"{line}\n" for line in lines)
    (data / "recovery-point-offset-checkpoint").write_text(text)


def _log(data: Path, name: str = "orders-0") -> Path:
    """Two segments: offsets 0 to 5, and 6 to 8."""
    replica = data / name
    write_segment(replica, 0, batch(0, THREE), batch(3, THREE))
    write_segment(replica, 6, batch(6, THREE))
    for ending in ("index", "timeindex", "snapshot"):
        (replica / f"{6:020d}.{ending}").touch()
    return replica


def test_log_is_cut_at_the_recovery_point(tmp_path: Path) -> None:
    """The rest is counted, then gone, with what is next to its segments; a second look finds nothing."""
    replica = _log(tmp_path)
    _checkpoint(tmp_path, "orders 0 3", "payments 0 99")
    (found,) = tails(tmp_path, tmp_path / "server.log")
    assert (found.topic, found.partition, found.synced) == ("orders", 0, 3)
    assert found.size == len(batch(3, THREE)) + len(batch(6, THREE))
    cut(found)
    assert log_end(replica) == 3
    assert [path.name for path in sorted(replica.iterdir())] == [f"{0:020d}.log"]
    assert tails(tmp_path, tmp_path / "server.log") == []


@pytest.mark.parametrize(
    "text", ["1\n1\norders 0 3\n", "0\n2\norders 0 3\n", "0\n1\norders 0\n", "0\n1\norders 0 x\n", "{}\n"]
)
def test_unknown_recovery_points_are_never_cut_at(text: str, tmp_path: Path) -> None:
    """What is not known to be synced must not be taken for lost."""
    _log(tmp_path)
    (tmp_path / "recovery-point-offset-checkpoint").write_text(text)
    with pytest.raises(UnknownFormat, match=r"recovery-point-offset-checkpoint begins with .* does not know"):
        tails(tmp_path, tmp_path / "server.log")


def test_empty_file_of_recovery_points_has_none(tmp_path: Path) -> None:
    """Kafka makes it when it starts, and writes it when it first flushes: nothing is synced yet."""
    _log(tmp_path)
    (tmp_path / "recovery-point-offset-checkpoint").touch()
    (found,) = tails(tmp_path, tmp_path / "server.log")
    assert found.synced == 0


def test_unknown_words_about_a_flush_are_reported(tmp_path: Path) -> None:
    """The last line may be cut; any other one says what was synced."""
    _log(tmp_path)
    known = _flushing("orders-0", 3)
    log = _said(tmp_path / "server.log", known, known.replace("partition=", "replica="))
    with pytest.raises(
        UnknownFormat, match=r"server\.log has .*replica=orders-0.*, which kaput does not know"
    ):
        tails(tmp_path, log)
    log.write_text(log.read_text()[:-20])
    assert [found.synced for found in tails(tmp_path, log)] == [3]


def test_later_format_of_batches_is_never_cut(tmp_path: Path) -> None:
    """It would look like a log without any batch."""
    write_segment(tmp_path / "orders-0", 0, batch(0, THREE)[:16] + b"\x03" + batch(0, THREE)[17:])
    with pytest.raises(
        UnknownFormat, match=r"\.log has record batches in format 3, which kaput does not know"
    ):
        tails(tmp_path, tmp_path / "server.log")


def test_log_without_a_recovery_point_is_emptied(tmp_path: Path) -> None:
    """The first segment stays, empty: a log has one."""
    replica = _log(tmp_path)
    (found,) = tails(tmp_path, tmp_path / "server.log")
    cut(found)
    assert [(p.name, p.stat().st_size) for p in sorted(replica.iterdir())] == [(f"{0:020d}.log", 0)]


def test_last_logged_flush_counts_as_synced(tmp_path: Path) -> None:
    """The last that it said of each log, since a log that was truncated is flushed to a lower offset."""
    _log(tmp_path, "orders-0")
    _log(tmp_path, "two-words.v1-12")
    _checkpoint(tmp_path, "orders 0 0")
    log = _said(
        tmp_path / "server.log",
        _flushing("two-words.v1-12", 9),
        _flushing("orders-0", 9),
        "INFO [UnifiedLog partition=orders-0, dir=/data] Truncating to offset 6 (UnifiedLog)",
        _flushing("orders-0", 6),
    )
    assert [(tail.topic, tail.synced) for tail in tails(tmp_path, log)] == [("orders", 6)]


def test_partly_synced_or_torn_batch_is_cut_whole(tmp_path: Path) -> None:
    """And so is one that is torn, which nobody can have synced."""
    replica = tmp_path / "orders-0"
    whole = batch(0, THREE)
    write_segment(replica, 0, whole, batch(3, THREE)[:-1])
    _checkpoint(tmp_path, "orders 0 3")
    (found,) = tails(tmp_path, tmp_path / "server.log")
    assert found.size == len(whole) - 1
    _checkpoint(tmp_path, "orders 0 2")
    (found,) = tails(tmp_path, tmp_path / "server.log")
    cut(found)
    assert log_end(replica) == 0


def test_metadata_log_is_not_cut(tmp_path: Path) -> None:
    """Its records are synced one by one; and what is no log is none."""
    _log(tmp_path, "__cluster_metadata-0")
    (tmp_path / "lost+found").mkdir()
    assert tails(tmp_path, tmp_path / "server.log") == []
