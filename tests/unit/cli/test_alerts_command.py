"""`kaput alerts` without a cluster: list, show, check, rules."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from fakes.histories import History
from fakes.isolation import isolation, judged
from fakes.program import app
from kaput.cli.alerts import score_results
from kaput.cli.results import result_of
from kaput.errors import UsageError
from kaput.evidence.findings_file import read_findings
from kaput.evidence.folder import RunFolder
from kaput.monitor.alerts.rules import builtin, load


def printed(*arguments: str) -> str:
    """What the command prints; it must end well."""
    result = CliRunner().invoke(app, ["alerts", *arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def refused(*arguments: str) -> str:
    """The mistake that it reports."""
    result = CliRunner().invoke(app, ["alerts", *arguments])
    assert isinstance(result.exception, UsageError)
    return str(result.exception)


def test_every_rule_is_listed_with_its_condition() -> None:
    lines = printed("list").splitlines()
    assert len(lines) == len(builtin().alert_rules)
    assert lines[0].split(maxsplit=2) == [
        "low-send-rate",
        "page",
        "the sum of kaput_messages_acked_total, per second over 30s, is below 800 for 10s (until 900)",
    ]
    assert [rule["name"] for rule in json.loads(printed("list", "--json"))] == list(builtin().by_name)


def test_shown_rules_file_can_be_edited_and_loaded(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(printed("show").replace("below: 800", "below: 5000").replace("clear: 900", "clear: 6000"))
    assert load(path).by_name["low-send-rate"].below == 5000
    assert "5000" in printed("list", "--rules", str(path))
    assert printed("show", "--rules", str(path)) == path.read_text()
    assert printed("check", str(path)) == f"{path}: 23 rules, 15 with severity page\n"
    assert json.loads(printed("check", str(path), "--json")) == {"file": str(path), "rules": 23, "pages": 15}


def test_show_prints_one_rule_with_its_reason() -> None:
    text = printed("show", "replicas-out-of-sync")
    assert "Does not wake: everything works" in text
    assert "Silent while broker-down fires with the same broker." in text
    assert json.loads(printed("show", "broker-down", "--json"))["for"] == "120s"
    assert refused("show", "broker-dwon").endswith("did you mean broker-down?")


@pytest.mark.parametrize("arguments", [("check",), ("list", "--rules"), ("show", "--rules")])
def test_errors_in_a_rules_file_have_line_numbers(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("rules:\n  - name: x\n    sigal: kaput_broker_up\n")
    assert f"{path}:3: rule x: sigal: no such key; did you mean signal?" in refused(*arguments, str(path))


def test_rules_for_prometheus_and_alertmanager() -> None:
    groups = yaml.safe_load(printed("rules", "--prometheus"))["groups"]
    assert len(groups[0]["rules"]) == 23
    assert yaml.safe_load(printed("rules", "--alertmanager"))["inhibit_rules"]
    assert refused("rules") == refused("rules", "--prometheus", "--alertmanager")


@pytest.fixture(scope="module")
def isolated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A judged run: 50 messages a second, and a leader cut off for 30 s that goes on acknowledging."""
    folder, findings = judged(tmp_path_factory.mktemp("isolated"))
    folder.findings_path.write_text(findings.to_json(), encoding="utf-8")
    return folder.path


def rules_file(path: Path, threshold: int) -> str:
    """One rule on brokers, and one on the rate of acknowledgements."""
    common = {"summary": "s", "why": "w"}
    down = {"name": "down", "signal": "kaput_broker_up", "at-most": 0, "severity": "ticket"}
    slow = {"name": "slow", "signal": "kaput_messages_acked_total", "rate": "5s", "below": threshold}
    rules = [down | common, slow | common | {"combine": "sum", "severity": "page"}]
    path.write_text(yaml.safe_dump({"rules": rules}), encoding="utf-8")
    return str(path)


def test_a_recorded_run_is_scored(isolated: Path, tmp_path: Path) -> None:
    rules = rules_file(tmp_path / "rules.yaml", 10)
    text = printed("score", str(isolated), "--rules", rules)
    row = next(line for line in text.splitlines() if "down (broker 1)" in line)
    assert row.split()[-5:] == ["1)", "ticket", "9", "1", "right"], "9 s is the session that ends"
    document = json.loads(printed("score", str(isolated), "--rules", rules, "--json"))
    (fault,) = document["runs"][0]["faults"]
    assert fault["needs"] == ["writes", "reserve"], "no group waited for the heal: what it lacked is lost"
    assert fault["missed"] == ["slow"], "a deposed leader acknowledges everything"
    assert document["runs"][0]["unnoticed"] == [fault["id"]]
    assert "missed" in text


def test_a_rule_is_tuned_on_recorded_runs(isolated: Path, tmp_path: Path) -> None:
    rules, chart = rules_file(tmp_path / "rules.yaml", 10), tmp_path / "chart.svg"
    arguments = ("tune", str(isolated), "--rules", rules, "--rule", "slow", "--thresholds", "20,200")
    text = printed(*arguments, "--durations", "0s,5s", "--chart", str(chart))
    assert "10 *" in text and "No recommendation" in text
    assert chart.read_text().startswith("<svg")
    document = json.loads(printed(*arguments, "--json"))
    assert [point["threshold"] for point in document["points"]] == [10, 20, 200]
    assert "write numbers" in refused(
        "tune", str(isolated), "--rule", "slow", "--rules", rules, "--thresholds", "x"
    )
    assert "not a duration" in refused(
        "tune", str(isolated), "--rule", "slow", "--rules", rules, "--durations", "x"
    )
    assert "no rule slo" in refused("tune", str(isolated), "--rule", "slo", "--rules", rules)


def test_a_run_that_was_not_judged_is_refused(tmp_path: Path) -> None:
    assert "nowhere" in refused("score", str(tmp_path / "nowhere"))
    folder = isolation().write(tmp_path / "run")
    assert "kaput analyze" in refused("score", str(folder.path))


def test_run_with_alerts_prints_and_stores_its_score(
    isolated: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`kaput run --alerts`: on stderr where stdout is for JSON."""
    folder = RunFolder(isolated)
    results = [result_of(folder, read_findings(folder.findings_path))]
    rules = load(Path(rules_file(tmp_path / "rules.yaml", 10)))
    score_results(rules, results, to_stderr=True)
    shown = capsys.readouterr()
    assert shown.out == "" and "down (broker 1)" in shown.err
    score_results(rules, results, to_stderr=False)
    assert "down (broker 1)" in capsys.readouterr().out
    document = json.loads((isolated / "alerts.json").read_text())
    assert document["rules"][0]["rule"] == "down"


def test_a_run_without_messages_has_no_alerts(
    isolated: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Which is reported, and is no error: the run has its verdict."""
    folder = History().write(tmp_path / "run")
    findings = read_findings(RunFolder(isolated).findings_path)
    score_results(builtin(), [result_of(folder, findings)], to_stderr=False)
    shown = capsys.readouterr()
    assert shown.out == "" and "nothing was sent" in shown.err
