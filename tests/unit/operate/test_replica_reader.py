"""The files of a broker that is down, and what is asked of a replica."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from fakes.program import app
from fakes.segments import batch, write_segment
from kaput.core import TopicPartition
from kaput.errors import LabError, UsageError
from kaput.operate.replica_reader import RecordRange, _from_files

PLACE = TopicPartition("orders", 0)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Offsets 3 to 8 in two segments."""
    replica = tmp_path / "orders-0"
    write_segment(replica, 3, batch(3, [b"3", b"4"]), batch(5, [b"5"]))
    write_segment(replica, 6, batch(6, [b"6", b"7", b"8"]), batch(9, [b"torn"])[:-1])
    return tmp_path


@pytest.mark.parametrize(
    ("offset", "count", "offsets"),
    [(0, 99, range(3, 9)), (4, 3, [4, 5, 6]), (-2, 10, [7, 8]), (-99, 1, [3]), (9, 5, []), (6, 0, [])],
)
def test_records_are_read_from_segment_files(data: Path, offset: int, count: int, offsets: list[int]) -> None:
    """From an offset on, or so many before the end, across segments; what is torn is not there."""
    found = _from_files(data, PLACE, 1, None, RecordRange(offset, count))
    assert (found.start, found.end, found.source) == (3, 9, "files")
    assert [record.offset for record in found.records] == list(offsets)
    assert [record.value for record in found.records] == [str(offset).encode() for offset in offsets]


def test_replica_without_files_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(LabError, match="has no file for orders/0"):
        _from_files(tmp_path, PLACE, 1, None, RecordRange(0, 1))


@pytest.mark.parametrize(
    ("arguments", "wrong"),
    [
        (["peek", "orders", "--replica", "1", "--bootstrap-servers", "x:1"], "is not a partition"),
        (["peek", "orders/0", "--replica", "1", "--bootstrap-servers", "localhost"], "is not HOST:PORT"),
        (["replay", "a", "a", "--bootstrap-servers", "127.0.0.1:1"], "into itself"),
        (["replay", "a", "__consumer_offsets", "--bootstrap-servers", "127.0.0.1:1"], "is internal to Kafka"),
        (
            ["replay", "a", "__transaction_state", "--bootstrap-servers", "127.0.0.1:1"],
            "is internal to Kafka",
        ),
        *(
            (
                ["replay", "a", "b", "--client-setting", f"{key}=x", "--bootstrap-servers", "127.0.0.1:1"],
                f"--client-setting {key}",
            )
            for key in ("group.id", "transactional.id", "isolation.level", "bootstrap.servers")
        ),
        (
            ["replay", "a", "b", "--client-setting", "nope=1", "--bootstrap-servers", "127.0.0.1:1"],
            '--client-setting: No such configuration property: "nope"',
        ),
        (
            ["replay", "a", "b", "--client-setting", "acks=many", "--bootstrap-servers", "127.0.0.1:1"],
            '--client-setting: Invalid value for configuration property "request.required.acks"',
        ),
        (
            ["replay", "a", "b", "--client-setting", "x", "--bootstrap-servers", "127.0.0.1:1"],
            "write KEY=VALUE",
        ),
    ],
)
def test_invalid_arguments_are_rejected(arguments: list[str], wrong: str) -> None:
    """Each in a sentence, before anybody is asked."""
    result = CliRunner().invoke(app, arguments)
    assert isinstance(result.exception, UsageError) and wrong in str(result.exception)
