"""The command line as a whole: mistakes end with what to do, --quiet, --verbose and --output."""

from __future__ import annotations

import csv
import io
import json
import sys
from pathlib import Path

import pytest
import typer

from fakes.called import called
from fakes.trials import findings as findings_of
from kaput.cli.output import printed_as, rows_of
from kaput.cli.verbs import Verbosity
from kaput.console import Console
from kaput.core import NEWEST_KAFKA
from kaput.evidence.folder import RunFolder, replace_text
from kaput.report.comparison import RunFigure


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("heal", "no verb 'heal' (did you mean kaput fault heal?); see kaput --help"),
        ("stats", "no verb 'stats' (did you mean kaput status?); see kaput --help"),
        ("up --brokrs 3", "No such option: --brokrs (did you mean --brokers?); see kaput up --help"),
        ("cache cler", "no verb 'cler' (did you mean kaput cache clear?); see kaput cache --help"),
        ("fault nope", "no verb 'nope'; see kaput fault --help"),
        (
            "tool --kafka 4.3 topics",
            f"'4.3' is not a release of Kafka: write one such as {NEWEST_KAFKA} (or use --kafka-home)",
        ),
        ("run --nmae x", "No such option: --nmae; see kaput run --help"),
        ("peek", "Missing argument 'TOPIC/PARTITION'; see kaput peek --help"),
        ("export runs/x", "Missing option '--format'. Choose from: jepsen, csv; see kaput export --help"),
        ("run noop --baseline no.json", "no.json: no such file; name a findings.json or a run folder"),
        (
            "tool consol",
            "consol: not one of Kafka's tools; did you mean console-consumer or console-producer or "
            "console-share-consumer?",
        ),
        ("docs nope", "'nope' is neither a page nor a word of the glossary; 'kaput docs' has the start page"),
        ("down lab", "unexpected argument lab (did you mean --cluster lab?); see kaput down --help"),
        ("version a b", "unexpected argument a b; see kaput version --help"),
        ("rnu noop", "no verb 'rnu' (did you mean kaput run?); see kaput --help"),
        ("doctor KP003", "check IDs require --prove; see kaput doctor --help"),
        ("help nonsense", "no verb 'nonsense'; see kaput --help"),
    ],
)
def test_a_mistake_ends_with_what_to_do(
    words: str, sentence: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In one line, and no word is proposed that is only faintly alike."""
    done = called(words.split(), monkeypatch, capsys)
    assert (done.status, done.stdout, done.stderr) == (2, "", f"kaput: {sentence}\n")


@pytest.mark.parametrize("words", ["-q run nothing-like-it", "run nothing-like-it --quiet"])
def test_errors_are_printed_when_quiet(
    words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """And stderr is back afterwards."""
    before = sys.stderr
    done = called(words.split(), monkeypatch, capsys)
    assert done.stderr.startswith("kaput: no scenario named nothing-like-it") and sys.stderr is before


def test_quiet_drops_notes(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A search for its folder's name would print one."""
    Verbosity.quieten()
    sys.stderr.write("a note\n")
    Verbosity.reset()
    assert capsys.readouterr().err == ""


def test_verbose_errors_have_a_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Above the sentence; without --verbose there is none."""
    assert "Traceback" in called(["run", "zzz", "-v"], monkeypatch, capsys).stderr
    assert "Traceback" not in called(["run", "zzz"], monkeypatch, capsys).stderr


def test_a_list_as_csv_and_markdown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the same entries as the list in JSON."""
    entries = json.loads(called(["fault", "targets", "--output", "json"], monkeypatch, capsys).stdout)
    text = called(["fault", "targets", "-o", "csv"], monkeypatch, capsys).stdout
    assert list(csv.DictReader(io.StringIO(text))) == entries
    table = called(["fault", "targets", "-o", "markdown"], monkeypatch, capsys).stdout.splitlines()
    assert table[:2] == ["| target | meaning |", "| --- | --- |"] and len(table) == len(entries) + 2


@pytest.mark.parametrize("words", ["--json", "-o json", "-q -o json", "list --json"])
def test_a_group_without_a_verb_lists(
    words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the options of its `list`."""
    entries = json.loads(called(["scenarios", *words.split()], monkeypatch, capsys).stdout)
    assert "noop" in [entry["name"] for entry in entries]
    rules = json.loads(called(["alerts", *words.split()], monkeypatch, capsys).stdout)
    assert "broker-down" in [rule["name"] for rule in rules]


def test_scenarios_are_listed_by_tag(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A tag that no scenario has is named."""
    entries = json.loads(called(["scenarios", "--tag", "mirror", "--json"], monkeypatch, capsys).stdout)
    assert len(entries) > 3 and all("mirror" in entry["tags"] for entry in entries)
    done = called(["scenarios", "--tag", "miror"], monkeypatch, capsys)
    assert done.status == 2 and "--tag miror: no scenario has this tag; did you mean mirror" in done.stderr


def test_a_verb_that_exits_with_its_verdict_prints_it(capsys: pytest.CaptureFixture[str]) -> None:
    """`analyze` and `run` raise their exit status, also 0."""
    with pytest.raises(typer.Exit), printed_as("csv"):
        sys.stdout.write('[{"lost": 3}]')
        raise typer.Exit(1)
    assert capsys.readouterr().out == "lost\n3\n"


def test_figures_of_runs_as_csv(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A row for each run, numbers without thousands separators; what no run has is left out."""
    findings = findings_of("violated")
    other = findings.model_copy(update={"run": findings.run.model_copy(update={"id": "other"})})
    for name, each in (("a", findings), ("b", other)):
        (tmp_path / name).mkdir()
        replace_text(RunFolder(tmp_path / name).findings_path, each.to_json())
    done = called(["report", str(tmp_path / "a"), str(tmp_path / "b"), "-o", "csv"], monkeypatch, capsys)
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    assert [row["run"] for row in rows] == [findings.run.id, "other"]
    assert {row["sent"] for row in rows} == {str(findings.totals.sent)}
    assert all(any(row[column] for row in rows) for column in rows[0])


def test_figures_in_markdown_are_rounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """As `--format markdown` has them; CSV keeps three decimals. Columns are named as in --columns."""
    figure = RunFigure("ack p99 ms", lambda _: 34613.831340000004)
    monkeypatch.setattr("kaput.report.comparison.FIGURES", (figure,))
    document = json.loads(findings_of("violated").to_json())
    (exact,), (rounded,) = rows_of([document]), rows_of([document], rounded=True)
    assert (exact["ack-p99-ms"], rounded["ack-p99-ms"]) == ("34613.831", "34,614")


def test_markdown_of_the_scenarios_is_a_summary(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Their expectations and descriptions would make it wider than any page."""
    first, *_ = called(["scenarios", "-o", "markdown"], monkeypatch, capsys).stdout.splitlines()
    assert first == "| name | title | tags | brokers | producers | messages | expect.verdict |"


@pytest.mark.parametrize(
    "words",
    [
        "report x --format html -o csv",
        "report x --format text -o json",
        "report x --format html --json",
        "doctor --format sarif -o csv",
        "status --json -o csv",
    ],
)
def test_two_forms_of_a_result_are_refused(
    words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither wins in silence."""
    done = called(words.split(), monkeypatch, capsys)
    assert done.status == 2 and "are different forms of the result: give one of them" in done.stderr


@pytest.mark.parametrize("words", ["-o json --json", "--format json --json", "-o table --format text"])
def test_forms_that_agree_are_accepted(
    words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """They ask for the same; what is refused is the folder."""
    done = called(["report", "nowhere", *words.split()], monkeypatch, capsys)
    assert "no such run folder" in done.stderr


@pytest.mark.parametrize(
    ("document", "rows"),
    [
        ([], []),
        ({"a": 1, "b": None}, [{"a": "1"}]),
        ([{"a": {"b": [1, 2]}}, {"c": "x"}], [{"a.b": "1, 2", "c": ""}, {"a.b": "", "c": "x"}]),
        ({"n": 2, "found": [{"id": "KP001"}]}, [{"id": "KP001"}]),
        ({"a": [{"x": 1}], "b": [{"y": 1}]}, [{"a": '[{"x": 1}]', "b": '[{"y": 1}]'}]),
        ({"brokers": [{"id": 1}], "partitions": [{"topic": "a"}]}, [{"topic": "a"}]),
        (["x", "y"], [{"value": "x"}, {"value": "y"}]),
    ],
)
def test_rows_of_a_document(document: object, rows: list[dict[str, str]]) -> None:
    """Nothing is dropped but columns without a value."""
    assert rows_of(document) == rows


def test_what_is_printed_again_and_again_has_no_table(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It would be printed when the watch ends."""
    done = called(["status", "--watch", "-o", "csv"], monkeypatch, capsys)
    assert done.status == 2 and "use --json" in done.stderr


@pytest.mark.parametrize("words", ["-o json", "-ojson", "--output json", "--output=json", "--json"])
def test_an_error_is_a_document_where_json_is_wanted(
    words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In each spelling."""
    done = called(["scenarios", "show", "nope", *words.split()], monkeypatch, capsys)
    assert json.loads(done.stdout)["exit_status"] == done.status == 2


@pytest.mark.parametrize(
    ("variables", "colored"),
    [
        ({}, False),
        ({"CLICOLOR_FORCE": "1"}, True),
        ({"CLICOLOR_FORCE": "0"}, False),
        ({"CLICOLOR_FORCE": "1", "NO_COLOR": "1"}, False),
    ],
)
def test_colors_in_a_pipe(
    variables: dict[str, str],
    colored: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Only when they are asked for, and never against NO_COLOR."""
    for name in ("CLICOLOR_FORCE", "NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("TERM", "xterm")
    Console().print("lost", style="red")
    assert ("\x1b[31m" in capsys.readouterr().out) is colored


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("grow lab", "kaput: lab: write the number of brokers to add (did you mean --cluster lab?)\n"),
        ("grow 0", "kaput: 0: write the number of brokers to add\n"),
        (
            "compare a:1,b:1 b:1",
            "kaput: a:1,b:1 and b:1 are the same cluster; name the cluster and its mirror\n",
        ),
        (
            "failover a:1 a:1 --alias dc1 --group g",
            "kaput: a:1 and a:1 are the same cluster; name the cluster and its mirror\n",
        ),
    ],
)
def test_what_cannot_be_meant_is_refused(
    words: str, message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With what may have been meant."""
    done = called(words.split(), monkeypatch, capsys)
    assert done.status == 2 and done.stderr.startswith(message)


def test_versions_are_plain_words(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Keys of the JSON document stay what they are."""
    lines = called(["version"], monkeypatch, capsys).stdout.splitlines()
    assert f"default Kafka: {NEWEST_KAFKA}" in lines
    assert {"run as root: yes", "run as root: no"} & set(lines)
    assert {"default_kafka", "root"} <= json.loads(
        called(["version", "--json"], monkeypatch, capsys).stdout
    ).keys()


def test_what_inject_hits_without_a_target_is_in_its_help(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """And no example leaves it to chance."""
    text = " ".join(called(["fault", "inject", "--help"], monkeypatch, capsys).stdout.split())
    assert "Without it, any: one broker, chosen at random." in text
    assert "inject kill --target 'broker 1'" in called(["up", "--help"], monkeypatch, capsys).stdout


def test_help_on_help_is_that_of_the_program(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    done = called(["help", "help"], monkeypatch, capsys)
    assert done.status == 0 and done.stdout == called(["--help"], monkeypatch, capsys).stdout
