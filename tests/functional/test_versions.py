"""Every release of Kafka that kaput works with, by one scenario that needs all that kaput reads of Kafka's:
storage that kaput formats, files of logs, and lines of the log.
"""

from __future__ import annotations

import pytest

from driving import Kaput
from kaput.cluster.distribution import resolve
from kaput.core import NEWEST_KAFKA, OLDEST_KAFKA
from kaput.errors import DistributionError
from kaput.java import find_java

_RELEASES = [OLDEST_KAFKA, "3.8.1", "3.9.2", "4.0.2", "4.1.2", "4.2.0", "4.3.1", NEWEST_KAFKA]


@pytest.mark.long
@pytest.mark.alone
@pytest.mark.parametrize("version", _RELEASES)
def test_each_release_is_run_and_judged(kaput: Kaput, version: str) -> None:
    """What a deposed leader alone acknowledged is lost: counted, seen on its disk, explained by epochs."""
    try:
        resolve(version, find_java())
    except DistributionError as error:
        pytest.skip(f"the repository does not have it now: {error}")
    result = kaput.run("leader-kill-lagging-acks-1", "--set", f"cluster.kafka={version}")
    found = result.findings
    assert (result.status, found["verdict"]) == (0, "held"), found["reasons"]
    assert found["run"]["kafka"] == version
    lost = result.count("lost")
    assert lost == len(result.lost()) > 0
    assert result.causes("lost") == {"deposed-leader": lost}
    result.assert_witnessed(broker=1, epoch=0)
    assert {row["kind"] for row in result.rows("cluster_events")} >= {"leader", "isr", "fenced", "unfenced"}
    assert not [reason for reason in found["reasons"] if "not known" in reason]
