"""A watch on its page: what its ledger says of it, and how it ends."""

from __future__ import annotations

import json
import os
from contextlib import closing
from pathlib import Path

from fakes.run_folders import made, now_ns
from kaput.dashboard.safe_files import Runs
from kaput.dashboard.watching.reader import RunReader
from kaput.evidence.folder import RunFolder


def test_watch_shows_its_ledger_counts_and_ends_without_a_verdict(tmp_path: Path) -> None:
    """What is missing, late, doubled; at the end a sentence, as nobody judges it unless he is asked to."""
    folder = made(tmp_path, "watch", "recording", "watch", started_ns=now_ns(), phase="watch")
    with closing(RunReader(Runs(tmp_path), "watch")) as reader:
        _follow(folder, reader)


def _follow(folder: RunFolder, reader: RunReader) -> None:
    assert reader.look().head["ledger"] is None
    counts = {"acked": 1234, "missing": 1, "late": 2, "duplicated": 3, "reordered": 4, "complete": False}
    watch = folder.path / "watch"
    watch.mkdir()
    (watch / "status.json").write_text(json.dumps({**counts, "durations": []}))
    now = reader.look()
    assert not now.over and now.head["ledger"]["final"] is None
    told = now.head["ledger"]
    assert (told["missing"], told["late"], told["duplicated"], told["reordered"]) == (1, 2, 3, 4)
    for complete, missing, kind in ((True, 1, "violated"), (True, 0, "held"), (False, 0, "inconclusive")):
        final = {**counts, "complete": complete, "missing": missing}
        (watch / "final.json").write_text(json.dumps(final))
        os.utime(watch / "final.json", ns=(0, missing + 2 * complete))
        told = reader.look().head["ledger"]["final"]
        assert told["kind"] == kind and f"1,234 acknowledged: {missing} missing, 2 late" in told["message"]
    assert not reader.look().over  # it is not sealed yet
    over = {"state": "sealed", "phase": "over", "ended_ns": now_ns()}
    folder.write_manifest(folder.read_manifest().model_copy(update=over))
    last = reader.look()
    assert last.over and last.head["phase"] == "over" and "kaput analyze" in last.head["recorder"]["message"]
    (watch / "final.json").write_text(json.dumps({"audited": {}}))
    assert reader.look().head["ledger"] is None
