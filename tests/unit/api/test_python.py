"""kaput from Python, without brokers and without a JVM: evidence is judged, read and shown."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import kaput
from fakes import run_folders
from fakes.in_process import InProcess
from fakes.notebooks import executed
from kaput.bench.generate import generate, shape_of
from kaput.bench.plan import PlantingPlan
from kaput.errors import EvidenceError, UsageError
from kaput.evidence.findings_file import SCHEMA
from kaput.evidence.findings_parts import GroupCounts, RunCounts
from kaput.scenario.anomalies import ANOMALIES, GROUP_ANOMALIES
from waiting import PATIENCE_S

HEAVY = ("pyspark", "polars", "pyarrow", "numpy", "pydantic", "altair", "confluent_kafka", "kafka")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """A run folder with planted anomalies that was judged, and what was planted."""
    folder = tmp_path_factory.mktemp("made")
    shape = shape_of(20_000, 4, 3, 2, seed=5, slab_messages=20_000)
    expected = generate(PlantingPlan(shape, 0.001), folder, lambda _done, _all: None)
    kaput.analyze(folder, InProcess(), page=False)
    return folder, expected


def test_importing_kaput_loads_nothing_heavy() -> None:
    """Neither does asking what there is in it."""
    code = f"import kaput, sys; dir(kaput); print([n for n in {HEAVY} if n in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE_S, check=True
    )
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("name", kaput.__all__)
def test_every_public_name_is_listed_and_documented(name: str) -> None:
    """It is listed by dir(), and has a docstring."""
    assert name in dir(kaput)
    assert name == "__version__" or getattr(kaput, name).__doc__


def test_counts_of_anomalies_are_attributes(made: tuple[Path, dict[str, Any]]) -> None:
    """Of the run all that were planted; of a group its own, which add up to those of the run."""
    findings, expected = kaput.load(made[0]), made[1]["anomalies"]
    assert findings.lost == expected["lost"] > 0
    assert findings.redelivered == expected["redelivered"] > 0
    groups = [findings.group(group.group) for group in findings.groups]
    assert len(groups) == 2
    assert sum(group.redelivered for group in groups) == findings.redelivered
    assert all(group.redelivered for group in groups)


def test_every_anomaly_has_an_attribute() -> None:
    """In the glossary's words, with _ for -."""
    names = {name.replace("-", "_") for name in ANOMALIES}
    assert {name for name in dir(RunCounts) if not name.startswith("_")} == names
    of_groups = {name.replace("-", "_") for name in GROUP_ANOMALIES}
    assert {name for name in dir(GroupCounts) if not name.startswith("_")} == of_groups


def test_unknown_group_error_suggests_the_nearest_name(made: tuple[Path, dict[str, Any]]) -> None:
    """The nearest one is named."""
    findings = kaput.load(made[0])
    name = findings.groups[0].group
    with pytest.raises(UsageError, match=f"no group {name}x; did you mean {name}"):
        findings.group(f"{name}x")


def test_analyzing_again_gives_the_same_findings(made: tuple[Path, dict[str, Any]]) -> None:
    """And leaves the page that the command line leaves."""
    before = kaput.load(made[0])
    again = kaput.analyze(str(made[0]), InProcess())
    assert again == before and again.folder == made[0]
    assert (made[0] / "report.html").is_file()


def test_folder_without_findings_is_rejected_with_a_hint(tmp_path: Path) -> None:
    """Reading it is a mistake, and analyzing what is no run folder is one in the evidence."""
    with pytest.raises(UsageError, match=r"not a run folder \(it has no manifest\.json\)"):
        kaput.load(tmp_path)
    with pytest.raises(EvidenceError, match=r"manifest\.json"):
        kaput.analyze(tmp_path, InProcess())
    with pytest.raises(UsageError, match="run `kaput analyze"):
        kaput.load(run_folders.made(tmp_path, "unjudged").path)


def test_evidence_is_a_polars_frame(made: tuple[Path, dict[str, Any]]) -> None:
    """Every row of the table, with the columns of its schema; a table that is not there is empty."""
    run = kaput.Run(made[0])
    sends = run.evidence("sends").polars()
    assert sends.height == run.findings.totals.sent == 20_000
    assert sends.columns[:2] == ["producer", "seq"]
    log = run.evidence("log").polars()
    assert log.columns[-2:] == ["visible", "cluster"] and log.height == run.findings.totals.log_records
    transactions = run.evidence("transactions").polars()
    assert transactions.height == 0 and "transactional_id" in transactions.columns
    with pytest.raises(UsageError, match="no table send; did you mean sends"):
        run.evidence("send")


def test_the_ledger_has_every_message_once(made: tuple[Path, dict[str, Any]]) -> None:
    """Stretches of messages add up to what was sent."""
    ledger = kaput.Run(made[0]).ledger().polars()
    assert ledger["messages"].sum() == 20_000
    with pytest.raises(UsageError, match="no table legder; did you mean ledger"):
        kaput.Run(made[0]).analysis("legder")


def test_a_notebook_shows_verdict_timeline_and_report(made: tuple[Path, dict[str, Any]]) -> None:
    """No script is in it, since notebooks that are not trusted run none; str() is the same report."""
    findings = kaput.load(made[0])
    html = findings._repr_html_()
    assert "<b " in html and "VIOLATED</b>" in html
    assert "data:image/svg+xml;base64," in html
    assert "<script" not in html
    assert "Fates: every message has exactly one" in html and "Fates: every message has" in str(findings)
    shown = kaput.Run(made[0])._repr_html_()  # ids in the image differ each time
    assert shown.partition("<img ")[0] == html.partition("<img ")[0]
    assert shown.partition("<details>")[2] == html.partition("<details>")[2]
    assert repr(findings).startswith("<kaput.Findings of bench-generate: VIOLATED")


def test_markup_in_findings_is_escaped(made: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    """Names come from anybody's evidence."""
    document = json.loads((made[0] / "findings.json").read_text())
    document["run"]["scenario"] = "<script>alert(1)</script>"
    (tmp_path / "findings.json").write_text(json.dumps(document))
    assert "<script" not in kaput.load(tmp_path)._repr_html_()


def test_tables_are_shown_without_spark(made: tuple[Path, dict[str, Any]]) -> None:
    """What notebooks and copies look for on every object does not start a JVM."""
    sends = kaput.Run(made[0]).evidence("sends")
    assert "producer" in sends._repr_html_() and repr(sends).startswith("<kaput table sends: producer, seq")
    assert not hasattr(sends, "__array__")
    assert sends._frame is None


def test_the_notebook_that_compares_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """acks=1 beside acks=all, in a table and by cause."""
    recorded = Path(__file__).parents[2] / "recorded"
    for name in ("leader-kill-lagging-acks-1", "leader-kill-lagging-acks-all"):
        shutil.copytree(recorded / name, tmp_path / "runs" / name)
        kaput.analyze(tmp_path / "runs" / name, InProcess(), page=False)
    monkeypatch.chdir(tmp_path)
    names, values = executed("compare")
    assert [row["lost"] > 0 for row in names["table"].iter_rows(named=True)] == [True, False]
    assert set(values[-1]["leader-kill-lagging-acks-1"]) == {"deposed-leader"}


def test_findings_conform_to_the_shipped_schema(made: tuple[Path, dict[str, Any]]) -> None:
    """Those of an analysis do; a field too many, or a verdict that does not exist, does not."""
    schema = json.loads(SCHEMA.read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    found = json.loads((made[0] / "findings.json").read_text())
    jsonschema.validate(found, schema)
    with pytest.raises(jsonschema.ValidationError, match="'mistake' was unexpected"):
        jsonschema.validate({**found, "mistake": 1}, schema)
    with pytest.raises(jsonschema.ValidationError, match="'maybe' is not one of"):
        jsonschema.validate({**found, "verdict": "maybe"}, schema)


def test_package_is_marked_as_typed() -> None:
    """The package says that it has them (PEP 561)."""
    assert Path(str(kaput.__file__)).with_name("py.typed").is_file()
