"""Ctrl-C while partitions are read: the threads that read them end soon, too."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from fakes.in_process import InProcess
from kaput.cluster.kafka_cluster import ClusterAddress
from kaput.compare.reading import ReadRequest
from kaput.compare.records import read_all
from kaput.core import TopicPartition
from kaput.errors import Interrupted
from kaput.processes.signals import interrupts

_TRIES_S = 60  # that a reader looks for a leader


def test_readers_do_not_go_on_after_ctrl_c(tmp_path: Path) -> None:
    """No broker answers them: without the interrupt they would go on looking for a leader."""
    gone = ClusterAddress("gone", "127.0.0.1:1")
    wanted = {
        (pair, 0): ReadRequest(gone, TopicPartition("orders", pair), 0, 10, tmp_path / f"{pair}.parquet")
        for pair in range(4)
    }

    def interrupt(_what: str, _done: int, _total: int) -> None:
        os.kill(os.getpid(), signal.SIGINT)

    began = time.monotonic()
    with pytest.raises(Interrupted), interrupts():
        read_all(InProcess(2), wanted, interrupt, "reading")  # type: ignore[arg-type]
    assert time.monotonic() - began < _TRIES_S
