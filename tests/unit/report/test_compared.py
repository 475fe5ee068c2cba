"""Several runs next to each other: on one clock, each a point, whatever their data say."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from junitparser import JUnitXml
from typer.testing import CliRunner

from fakes.isolation import CUT_MS, END_MS, judged
from fakes.program import app
from kaput.evidence.findings import Findings
from kaput.evidence.folder import RunFolder
from kaput.report.charts.standalone import dot_plots
from kaput.report.comparison import Entry, labels
from kaput.report.comparison_report import to_html
from kaput.report.images import to_svg
from kaput.report.timeline.reading import TimelineData, aligned, read_timeline

EVIL = "<img src=x onerror=alert(1)></script>"
runner = CliRunner()


def entry(findings: Findings, run: str, variant: str = "0", **varied: Any) -> Entry:
    """A run of a scenario."""
    return Entry(run, variant, findings.run.scenario, varied, findings)


def with_p99(findings: Findings, ms: float, verdict: str = "held") -> Findings:
    """The same, but for what it measured."""
    ack = findings.latency_ms.ack.model_copy(update={"p99": ms})
    latency = findings.latency_ms.model_copy(update={"ack": ack})
    return findings.model_copy(update={"latency_ms": latency, "verdict": verdict})


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[RunFolder, Findings]:
    """The leader that is cut off."""
    return judged(tmp_path_factory.mktemp("isolation"))


def timeline_of(run: tuple[RunFolder, Findings]) -> TimelineData:
    found = read_timeline(*run)
    assert found is not None
    return found


def test_runs_are_aligned_at_their_first_fault(run: tuple[RunFolder, Findings]) -> None:
    """Whenever it was: everything else moves along, and all have one beginning and one end."""
    timeline = timeline_of(run)
    early = replace(timeline, faults=[bar._replace(begin=bar.begin - 5) for bar in timeline.faults])
    calm = replace(timeline, faults=[])
    found = aligned([timeline, early, calm])
    cut, end = CUT_MS / 1_000, END_MS / 1_000
    assert {(one.begin_s, one.end_s) for one in found} == {(-cut, end)}
    first = [min((bar.begin for bar in one.faults if bar.kind == "fault"), default=None) for one in found]
    assert first == [0.0, 0.0, None]
    assert [one.fine.rows[0]["s"] for one in found] == [-cut, 5 - cut, 0.0]
    assert [one.leaders[0].begin for one in found] == [-cut, 5 - cut, 0.0]
    assert [one.lag[-1].at for one in found] == [59 - cut, 64 - cut, 59]
    assert [one.marks[0].at for one in found] == [24 - cut, 29 - cut, 24]
    assert [one.marks[-1].at - one.marks[0].at for one in found] == pytest.approx([17.9 + 6] * 3)
    assert len({one.key for one in found}) == 3


def test_repetitions_have_one_label_and_variants_their_own(findings: Findings) -> None:
    """What was varied, the scenario where there are several, and numbers where nothing else tells apart."""
    one, other = entry(findings, "a"), entry(findings, "b")
    assert labels([one, other]) == [findings.run.scenario] * 2
    keys = [entry(findings, "a", acks, **{"workload.producers.0.acks": acks}) for acks in ("1", "all", "1")]
    assert labels(keys) == ["acks 1", "acks all", "acks 1"]
    assert labels([one, entry(findings, "b", "1")]) == [findings.run.scenario, f"{findings.run.scenario} (2)"]


def test_dot_plot_has_one_point_per_run(findings: Findings) -> None:
    """A figure that is the same in all runs has no plot; a run that did not measure it has no dot."""
    runs = [with_p99(findings, ms) for ms in (10.0, 30.0, 20.0)]
    nothing = with_p99(findings, 1.0).model_copy(
        update={"latency_ms": findings.latency_ms.model_copy(update={"ack": type(findings.latency_ms.ack)()})}
    )
    entries = [entry(one, str(nth)) for nth, one in enumerate([*runs, nothing])]
    (plot,) = dot_plots(entries)
    assert plot.title == "ack p99 ms" and plot.left_out == 1
    assert plot.table == [(findings.run.scenario, "10, 20, 30")]
    datasets = plot.chart.to_dict(validate=False)["datasets"].values()
    points = [point for rows in datasets for point in rows if "verdict" in point]
    assert sorted(point["value"] for point in points) == [10.0, 20.0, 30.0]


def test_a_page_of_several_runs(run: tuple[RunFolder, Findings]) -> None:
    """Counts, table, dot plots, timelines; hostile names are only text."""
    folder, findings = run
    other = with_p99(findings, 4_321.0, "violated")
    entries = [entry(findings, "one"), entry(other, EVIL)]
    document = to_html([run, (folder, other)], entries)
    for said in (
        "2 runs: 1 held, 1 violated",
        "Timelines, aligned at the first fault",
        "leader-isolated, one",
        'id="chart-1-rates"',
        "ack p99 ms as a table",
    ):
        assert said in document, said
    assert EVIL not in document and "&lt;img src=x" in document


def test_comparison_of_runs_without_timelines(tmp_path: Path, findings: Findings) -> None:
    """Their table and dot plots, and what would write it."""
    other = with_p99(findings, 5.0)
    entries = [entry(findings, "one"), entry(other, "two")]
    document = to_html([(RunFolder(tmp_path), findings), (RunFolder(tmp_path), other)], entries)
    assert "No timelines" in document and "ack p99 ms" in document


def test_an_image_of_several_runs(run: tuple[RunFolder, Findings]) -> None:
    """Both timelines, and the figure in which they differ."""
    other = with_p99(run[1], 77.0)
    svg = to_svg([run, (run[0], other)], [entry(run[1], "one"), entry(other, "two")])
    for said in (
        "ack p99 ms",
        "leader-isolated, one (held): Messages per second",
        "leader-isolated, two",
    ):
        assert said in svg, said


def test_junit_has_a_suite_for_each(tmp_path: Path, findings: Findings) -> None:
    """As `kaput report` prints it."""
    paths = []
    for number in range(2):
        path = tmp_path / str(number)
        path.mkdir()
        told = findings.model_copy(update={"run": findings.run.model_copy(update={"id": str(number)})})
        (path / "findings.json").write_text(told.to_json())
        paths.append(str(path))
    result = runner.invoke(app, ["report", *paths, "--format", "junit"])
    assert result.exit_code == 0 and len(JUnitXml.fromstring(result.stdout)) == 2
    result = runner.invoke(app, ["report", *paths, "--format", "html"])
    assert result.exit_code == 0 and "</span> 2 runs: 2 held</h1>" in result.stdout
