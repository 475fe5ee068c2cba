"""What reports say of mirrors and of a plan, and that they say nothing where there are none."""

from __future__ import annotations

from pathlib import Path

from junitparser import Failure, JUnitXml

from fakes.histories import History, at
from fakes.judging import findings_in
from fakes.mirror_histories import HERE, THERE, sent_and_mirrored, translated_ahead, two_clusters
from kaput.evidence.findings import Findings
from kaput.evidence.folder import RunFolder
from kaput.report.charts.rows import timeline_rows
from kaput.report.junit import to_junit
from kaput.report.run_report import to_html, to_markdown, to_text
from kaput.report.timeline.reading import read_timeline


def _judged(history: History, path: Path) -> tuple[Findings, tuple[str, str, str]]:
    folder = history.read_to_end().write(path)
    findings = findings_in(folder)
    return findings, (to_text(findings, path).plain, to_markdown(findings), to_html(folder, findings))


def _failed_over() -> History:
    """Five messages of which two were mirrored when the mirror was stopped; then one is sent to dc2."""
    history = sent_and_mirrored(two_clusters(groups=["billing"]), 0, 1, sent=5)
    history.groups = {"billing": True}
    history.mirrored("started", 0).mirrored("lag", 4, value=2.0).mirrored("lag", 4, value=1.0)
    history.mirrored("stopped", 2_003).handed(0, 0, 0, 3, **HERE).handed(1, 0, 1, 4, **HERE)
    history.mirrored("translated", 2_100, group="billing", target_offset=1)
    history.handed(1, 0, 1, 2_204, **THERE).handed(2, 0, 5, 2_300, **THERE)
    for step, begin, end, outcome in (("1 fence", 5, 6, "failed"), ("2 move-producers", 2_000, None, "done")):
        ended = None if end is None else at(end)
        told = {"kind": step[2:], "outcome": outcome, "proof": "dc1 does not answer"}
        history.add("plan", step=step, started_ns=at(begin), ended_ns=ended, **told)
    history.add(
        "plan",
        step="3 move-groups",
        kind="move-groups",
        outcome="done",
        started_ns=at(2_000),
        ended_ns=at(2_500),
        proof="1 member moved",
    )
    times = {"attempt_ns": at(2_050), "done_ns": at(2_105)}
    return history.sent(0, 5, 2, **THERE, **times).stored(2, 0, 5, **THERE)


def test_mirrors_and_failover_plan_are_in_every_format(tmp_path: Path) -> None:
    """What the target lacks in messages and in seconds; the steps; how long clients waited, and its price."""
    findings, forms = _judged(_failed_over(), tmp_path)
    assert (findings.verdict, findings.reasons[:1]) == (
        "inconclusive",
        ["Step 1 fence of the plan failed: dc1 does not answer."],
    )
    for shown in forms:
        assert "Mirrors between clusters" in shown and "dc1->dc2" in shown.replace("-&gt;", "->").replace(
            "-\\>", "->"
        )
        assert "The plan and its " in shown and "dc1 does not answer" in shown
        assert "3 stopped; the first was acknowledged at 22:13:20.003" in shown
        assert "6 sent, 6 acknowledged, no acknowledged message lost, 3 not in dc2." in shown
    text = forms[0]
    row = next(line for line in text.splitlines() if line.strip().startswith("dc1->dc2 "))
    assert row.split() == ["dc1->dc2", "5", "2", "3", "3", "2.0", "s", "0", "0", "0", "3", "records"]
    assert "writes from dc1 to dc2 2.1 s" in text
    group = next(line for line in text.splitlines() if line.split()[:2] == ["billing", "2.2"])
    assert group.split() == ["billing", "2.2", "s", "1", "0"]


def test_the_timeline_has_the_plan_and_the_mirror(tmp_path: Path) -> None:
    """Bars of steps, RTO and RPO; the mirror's lag is a band."""
    history = _failed_over()
    findings = _judged(history, tmp_path / "run")[0]
    timeline = read_timeline(RunFolder(tmp_path / "run"), findings)
    assert timeline is not None
    shown = [(bar.row, bar.kind, bar.begin, bar.short) for bar in timeline.moves]
    assert shown == [
        ("1 fence", "step", 0.005, "fence"),
        ("2 move-producers", "step", 2.0, "move-producers"),
        ("3 move-groups", "step", 2.0, "move-groups"),
        ("RTO, writes", "RTO", 0.005, "RTO"),
        ("RTO, reads of billing", "RTO", 0.004, "RTO"),
        ("RPO, dc1->dc2", "RPO", 0.003, "3"),
    ]
    assert [(one.group, one.lag) for one in timeline.mirror_lag] == [("dc1->dc2", 3)]
    rows = {row.name: row for row in timeline_rows(timeline)}
    assert len(rows["moves"].data) == 6 and len(rows["mirror_lag"].data) == 1


def test_run_without_mirrors_has_no_mirror_section(tmp_path: Path) -> None:
    """Neither of mirrors nor of a plan."""
    findings, forms = _judged(History().acked(0, 0, 0), tmp_path)
    assert findings.mirrors == [] and findings.plan is None
    assert not any("Mirrors between" in shown or "The plan, and" in shown for shown in forms)


def test_records_skipped_by_a_group_fail_in_junit(tmp_path: Path) -> None:
    """With the story of the first; what is permitted passes."""
    findings, _ = _judged(translated_ahead(), tmp_path)
    (suite,) = JUnitXml.fromstring(to_junit(findings))
    cases = {case.name: case for case in suite}
    (result,) = cases["translated-ahead in group billing"].result
    assert isinstance(result, Failure) and "below 2, where the group began" in result.text
    assert cases["translated-behind in group billing"].is_passed and cases["unmirrored"].is_passed
