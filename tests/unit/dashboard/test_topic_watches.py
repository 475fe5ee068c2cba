"""Watches of a user's own topics on pages: from what their streaming job writes, and from nothing else."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from fakes.run_folders import Site, made, now_ns, served
from kaput.dashboard.safe_files import Runs
from kaput.dashboard.watching.reader import RunReader
from kaput.evidence.folder import RunFolder

SECRET = "the secret of another directory"


def watch(runs: Path, name: str, job: dict[str, Any], file: str | None, **status: Any) -> None:
    """A folder as a watch of topics leaves it; no status if `file` is None."""
    folder = runs / name / "watch"
    folder.mkdir(parents=True)
    (folder / "job.json").write_text(json.dumps({"bootstrap_servers": "x:9092", "groups": [], **job}))
    if file is not None:
        (folder / file).write_text(json.dumps({"at_ns": time.time_ns(), "complete": True, **status}))


PLACES = [
    {"topic": "bills", "partition": 0, "stored": 1200, "missing": 3, "late": 1, "position": 1200},
    {"topic": "bills", "partition": 1, "stored": 34, "missing": 0, "late": 0, "position": None},
]
STAGES = {"produced": {"count": 20, "missing": 0}, "mirrored": {"count": 18, "missing": 2}}


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """A dashboard over one watch of each kind, a run, and folders that are neither."""
    numbers, audit = {"topics": ["bills"]}, {"topics": ["parcels", "kaput.audit"], "audit": {"prefix": ""}}
    watch(tmp_path, "1-watch", numbers, "status.json", missing=3, late=1, places=PLACES)
    watch(tmp_path, "2-watch", audit, "final.json", missing=2, audited={"parcels": STAGES}, complete=False)
    watch(tmp_path, "3-watch", numbers, None)
    watch(tmp_path, "4-watch", numbers, "status.json", at_ns=1, trouble="no broker <answered>")
    watch(tmp_path, "5-watch", {"topics": 7}, "status.json")
    made(tmp_path, "6-run")
    watch(tmp_path / "6-run", ".", numbers, "status.json")
    (tmp_path / "secret.json").write_text(json.dumps({"topics": [SECRET]}))
    (tmp_path / "7-watch" / "watch").mkdir(parents=True)
    (tmp_path / "7-watch" / "watch" / "job.json").symlink_to(tmp_path / "secret.json")
    with served(tmp_path) as found:
        yield found


def test_watches_of_topics_are_listed_beside_the_runs(site: Site) -> None:
    """Newest first, with their state; what has a manifest is listed as a run, and what is damaged is not."""
    watches = site.dashboard.topic_watches.all()
    assert [(each.name, each.state, each.audit) for each in watches] == [
        ("4-watch", "not updated", False),
        ("3-watch", "starting", False),
        ("2-watch", "ended", True),
        ("1-watch", "watching", False),
    ]
    assert [list(each.topics) for each in watches] == [["bills"], ["bills"], ["parcels"], ["bills"]]
    page = site.ask("/").text
    assert all(f'href="/watches/{n}-watch"' in page for n in (1, 2, 3, 4))
    assert "/watches/6-run" not in page and "/runs/6-run" in page and SECRET not in page


def test_watch_page_shows_totals_and_partitions(site: Site) -> None:
    """Also while the job has trouble or has not begun."""
    page = site.ask("/watches/1-watch").text
    assert "<b>1,234</b><span>stored</span>" in page and "<b>3</b><span>missing</span>" in page
    assert 'bills/0</th><td>1,200</td><td class="bad">3</td><td>1</td>' in page
    assert "bills/1</th><td>34</td>" in page and "Not everything" not in page
    assert "no broker &lt;answered&gt;" in site.ask("/watches/4-watch").text
    assert "has not counted anything yet" in site.ask("/watches/3-watch").text


def test_an_audit_shows_each_stage(site: Site) -> None:
    """With what it lacks, compared to the stage before."""
    page = site.ask("/watches/2-watch").text
    assert '<th scope="col">produced</th><th scope="col">mirrored</th>' in page
    assert '<td>20</td><td class="bad">18<small>2 missing</small></td>' in page
    assert "Not everything could be read" in page and "duplicated" not in page


@pytest.mark.parametrize("name", ["5-watch", "6-run", "7-watch", "8-watch", "..", "%2e%2e"])
def test_path_that_is_no_watch_is_not_found(site: Site, name: str) -> None:
    """Links are not followed, and nothing outside is read."""
    answer = site.ask(f"/watches/{name}")
    assert answer.status == 404 and SECRET not in answer.text


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
