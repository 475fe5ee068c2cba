"""Reports, replays and comparisons of runs that were judged, as the dashboard serves them."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from fakes import sample_run
from fakes.in_process import InProcess
from fakes.run_folders import Site, made, served, tree
from kaput.analysis.pipeline import analyse
from kaput.dashboard.guard import REPORT_POLICY
from kaput.evidence.reading import check


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Two runs of one of everything; a run whose analysis has gone; one that was never judged."""
    runs = tmp_path_factory.mktemp("runs")
    folder = sample_run.write(runs / "first")
    spark: Any = InProcess()
    findings = analyse(check(folder), spark)
    folder.findings_path.write_text(findings.to_json())
    shutil.copytree(folder.path, runs / "second")
    changed = findings.model_copy(update={"totals": findings.totals.model_copy(update={"acked": 3})})
    (runs / "second" / "findings.json").write_text(changed.to_json())
    shutil.copytree(folder.path, runs / "bare", ignore=shutil.ignore_patterns("analysis"))
    made(runs, "unjudged")
    with served(runs) as found:
        yield found


def test_missing_report_is_generated_without_writing(site: Site) -> None:
    """The page that `kaput report --format html` gives; the folder stays as it is."""
    before = tree(site.dashboard.runs.root / "first")
    answer = site.ask("/runs/first")
    assert answer.status == 200 and "<h1>" in answer.text and "sample" in answer.text
    assert tree(site.dashboard.runs.root / "first") == before
    assert site.ask("/runs/first").text == answer.text


def test_a_report_older_than_its_findings_is_made_anew(site: Site) -> None:
    """And one that is not is served as it stands."""
    page = site.dashboard.runs.root / "second" / "report.html"
    page.write_text("as it stands")
    assert site.ask("/runs/second").text == "as it stands"
    later = page.stat().st_mtime_ns + 1_000_000_000
    os.utime(site.dashboard.runs.root / "second" / "findings.json", ns=(later, later))
    assert "<h1>" in site.ask("/runs/second").text
    page.unlink()


def test_unjudged_run_redirects_to_the_live_page(site: Site) -> None:
    """There is no report to be shown."""
    answer = site.ask("/runs/unjudged")
    assert (answer.status, answer.headers["location"]) == (307, "/runs/unjudged/live")


def test_a_replay_has_every_message(site: Site) -> None:
    """Steps that add up to the totals, bars for what went on, and the verdict."""
    timeline = json.loads(site.ask("/runs/first/timeline.json").text)
    findings = json.loads((site.dashboard.runs.root / "first" / "findings.json").read_text())
    sums = [sum(row[at] for row in timeline["rows"]) for at in (1, 2)]
    assert sums == [findings["totals"]["sent"], findings["totals"]["acked"]]
    assert timeline["total"] == findings["totals"]["sent"]
    assert timeline["bars"]["leaders"] and timeline["bars"]["faults"]
    assert timeline["verdict"]["verdict"] == findings["verdict"]
    assert site.ask("/runs/first/replay").status == 200


def test_replay_error_names_the_missing_analysis(site: Site) -> None:
    """Without an analysis, or without a verdict."""
    assert "kaput analyze" in json.loads(site.ask("/runs/bare/timeline.json").text)["error"]
    assert "kaput analyze" in json.loads(site.ask("/runs/unjudged/timeline.json").text)["error"]


def test_two_runs_side_by_side(site: Site) -> None:
    """The report's comparison, behind a report's policy: figures that differ, and both timelines."""
    answer = site.ask("/compare?run=first&run=second")
    assert answer.headers["content-security-policy"] == REPORT_POLICY
    page = answer.text
    assert (
        '<th scope="col">acked</th>' in page
        and 'href="/runs/first"' in page
        and 'href="/runs/second"' in page
    )
    assert 'id="chart-0-rates"' in page and 'id="chart-1-rates"' in page
    answer = site.ask("/compare?run=first&run=unjudged")
    assert answer.status == 409 and "no findings yet" in answer.text
