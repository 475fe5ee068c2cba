"""A run folder that is named by a URL, through Spark's own file systems, and the command as users have it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from driving import KAPUT
from fakes.histories import History
from fakes.in_session import InSession
from kaput.evidence.recorder import Recorder
from spark.test_analyze_while_recording import opened, send
from waiting import PATIENCE_S


def _history() -> History:
    history = History(producers=[{"topic": "orders", "acks": 1}], topics=[{"name": "orders"}])
    for seq in range(20):
        history.acked(0, seq, seq)
    return history.sent(0, 20, 40).led(1, 0, -10, [1]).read_to_end()


def _analyze(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*KAPUT, "analyze", *words], capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )


def test_a_url_is_judged_as_a_path_is(tmp_path: Path) -> None:
    """The same findings; they and the analysis are next to the evidence; nothing is left in the scratch."""
    here, there, scratch = tmp_path / "here" / "run", tmp_path / "there" / "run", tmp_path / "scratch"
    _history().write(here)
    _history().write(there)
    scratch.mkdir()
    done = _analyze(str(here), there.as_uri(), "--json", "--scratch", str(scratch))
    assert done.returncode == 1, done.stderr
    assert "Warning" not in done.stderr  # PySpark's of pandas, which is here for the tests' sake
    by_path, by_url = json.loads(done.stdout)
    assert by_path == by_url
    assert by_url["anomalies"][0] == {**by_url["anomalies"][0], "name": "lost", "count": 1}
    assert json.loads((there / "findings.json").read_text()) == by_url
    assert json.loads((there / "manifest.json").read_text())["state"] == "analysed"
    left = {str(p.relative_to(there)) for p in there.rglob("*") if "part-" not in p.name}
    assert left == {str(p.relative_to(here)) for p in here.rglob("*") if "part-" not in p.name}
    assert list((there / "analysis" / "ledger").iterdir()) and list((there / "analysis" / "lost").iterdir())
    assert list(scratch.iterdir()) == []


def test_missing_folder_at_a_url_is_reported(tmp_path: Path, in_session: InSession) -> None:
    """No such folder, and an unknown scheme: a sentence with the URL, exit 2, nothing left."""
    done = in_session("analyze", (tmp_path / "nowhere").as_uri(), "--scratch", str(tmp_path))
    assert done.status == 2
    assert f"file:{tmp_path}/nowhere/manifest.json: does not exist; is file://" in done.stderr
    done = in_session("analyze", "moon://crater/run", "--scratch", str(tmp_path))
    assert done.status == 2
    assert 'moon://crater/run: Spark\'s file system failed: No FileSystem for scheme "moon"' in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_url_of_a_running_recording_is_judged_provisionally(tmp_path: Path, in_session: InSession) -> None:
    """A copy is judged by what had been recorded, and the recorder's manifest stays as it is."""
    folder = opened(tmp_path / "run")
    with Recorder(folder.path, "sends", "producer-0") as sends, Recorder(folder.path, "log", "drain") as log:
        send(sends, log, range(5))
        before = folder.manifest_path.read_text()
        judged = in_session("analyze", folder.path.as_uri(), "--json")
        findings = json.loads(judged.stdout)
        assert (judged.status, findings["totals"]["sent"]) == (3, 5)
        assert "it is judged by what had been recorded" in " ".join(findings["reasons"])
        assert folder.manifest_path.read_text() == before
        assert sorted(p.name for p in folder.table("sends").iterdir()) == ["producer-0.arrows"]
