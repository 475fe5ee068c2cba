"""`kaput analyze` of a run that is still recorded: refused, and its evidence stays whole."""

from __future__ import annotations

import json
import subprocess
import sys
import uuid
from pathlib import Path

import yaml

from driving import KAPUT
from kaput.evidence.folder import Manifest, RunFolder
from kaput.evidence.recorder import Recorder
from waiting import PATIENCE_S

SCENARIO = {
    "version": 1,
    "title": "Ten messages",
    "cluster": {"brokers": 1},
    "topics": [{"name": "orders", "replication-factor": 1}],
    "workload": {"producers": [{"topic": "orders", "acks": "all", "messages": 10}]},
}


def analyze(*arguments: object) -> subprocess.CompletedProcess[str]:
    """`kaput analyze --json`."""
    command = [*KAPUT, "analyze", *map(str, arguments), "--json"]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)


def opened(path: Path) -> RunFolder:
    """A run folder as it is during recording."""
    folder = RunFolder(path)
    path.mkdir()
    folder.scenario_path.write_text(yaml.safe_dump(SCENARIO))
    folder.write_manifest(Manifest(run_id=uuid.uuid4(), scenario="ten", state="recording", started_ns=1))
    return folder


def send(sends: Recorder, log: Recorder, seqs: range) -> None:
    """Acknowledged sends and their records, flushed."""
    for seq in seqs:
        sends.row(0, seq, "orders", 0, 10 + seq, 20 + seq, "acked", seq)
        log.row("orders", 0, seq, 0, 0, 0, seq, True)
    sends.flush()
    log.flush()


def test_analyze_is_refused_while_recording(tmp_path: Path) -> None:
    """The first is refused with exit 2 and a sentence; the second finds ten messages, and no phantom."""
    folder = opened(tmp_path / "run")
    with Recorder(folder.path, "sends", "producer-0") as sends, Recorder(folder.path, "log", "drain") as log:
        send(sends, log, range(5))
        refused = analyze(folder.path)
        send(sends, log, range(5, 10))
    with Recorder(folder.path, "end_offsets", "drain") as ends:
        ends.row("orders", 0, 10, 10)
    folder.write_manifest(folder.read_manifest().model_copy(update={"state": "sealed", "ended_ns": 99}))
    judged = analyze(folder.path)
    findings = json.loads(judged.stdout)
    assert findings["totals"]["sent"] == findings["totals"]["stored_messages"] == 10
    assert not [a["name"] for a in findings["anomalies"] if a["count"]]
    assert (judged.returncode, findings["verdict"]) == (0, "held")
    assert refused.returncode == 2
    assert "this run is still being recorded, by process" in refused.stderr
    assert "Ctrl-C" in refused.stderr and "Traceback" not in refused.stderr


def test_analyze_is_refused_before_the_first_row(tmp_path: Path) -> None:
    """A run whose recorder has opened its folder and nothing else; once that is dead, nothing is judged."""
    folder = opened(tmp_path / "run")
    hold = (
        "import sys\nfrom pathlib import Path\nfrom kaput.evidence.recording import hold_to_record\n"
        "hold = hold_to_record(Path(sys.argv[1]), 'kaput run')\nprint(flush=True)\ninput()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", hold, str(folder.path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as recorder:
        assert recorder.stdout is not None
        recorder.stdout.readline()
        refused = analyze(folder.path)
        assert refused.returncode == 2
        assert f"by process {recorder.pid} (kaput run, since" in refused.stderr
        recorder.kill()
    assert analyze(folder.path).returncode == 3
    assert not (folder.path / ".recording").exists()
