"""The example with rsyslog in a real run, where it is installed: its disk queue outlives an outage."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections import Counter
from pathlib import Path

import pytest

from driving import Kaput

EXAMPLE = Path(__file__).parents[2] / "examples" / "clients" / "rsyslog"
MESSAGES = 4000
MODULES = [Path(os.environ[name]) for name in ("RSYSLOG_MODULES",) if name in os.environ]
OUTPUTS = [*MODULES, *Path("/usr/lib").glob("*/rsyslog"), Path("/usr/lib64/rsyslog")]
DAEMON = os.environ.get("RSYSLOGD") or shutil.which("rsyslogd", path=f"{os.environ['PATH']}:/usr/sbin")


@pytest.mark.skipif(
    DAEMON is None or not any((path / "omkafka.so").exists() for path in OUTPUTS),
    reason="rsyslog with its Kafka output is not installed (Debian: rsyslog, rsyslog-kafka)",
)
def test_messages_queued_by_rsyslog_during_an_outage_are_stored(tmp_path: Path) -> None:
    """All is acknowledged by rsyslog at once, and stored at least once in the end."""
    command = shlex.join([sys.executable, str(EXAMPLE / "client.py")])
    changes = {
        "workload.producers.0.command": command,
        "workload.producers.0.messages": MESSAGES,
        "workload.producers.0.rate": 500,
        "faults.0.at": "2s",
        "faults.0.for": "4s",
    }
    options = [word for key, value in changes.items() for word in ("--set", f"{key}={value}")]
    result = Kaput(tmp_path / "runs").run(str(EXAMPLE / "kafka-away.yaml"), *options)
    assert Counter(row["outcome"] for row in result.rows("sends")) == {"acked": MESSAGES}
    stored = Counter(row["seq"] for row in result.rows("log") if row["intact"])
    assert set(stored) == set(range(MESSAGES))
    assert result.count("duplicate") == sum(times > 1 for times in stored.values())
    assert (result.status, result.count("lost")) == (0, 0)
