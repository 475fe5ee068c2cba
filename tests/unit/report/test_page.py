"""report.html: escaped, whole, alone, and of one size however many messages there were."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import fields, is_dataclass
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from fakes import sample_run
from fakes.in_process import InProcess
from kaput.analysis.pipeline import analyse
from kaput.evidence.findings import Findings
from kaput.evidence.folder import RunFolder
from kaput.evidence.reading import check
from kaput.report.document import Cell, Term, text_of
from kaput.report.images import to_png, to_svg
from kaput.report.render.html import glossary
from kaput.report.run_report import document, to_html, to_markdown
from kaput.report.sections import JudgedRun
from kaput.report.sections.fates import adds_up, fates_table
from kaput.report.timeline.reading import MOST_STEPS, read_timeline

EVIL = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'`|*&amp;</script>"


class Tags(HTMLParser):
    """The tags of a document with their attributes, and its text outside of scripts and style."""

    def __init__(self, document: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self._within = ""
        self.feed(document)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._within = tag

    def handle_endtag(self, tag: str) -> None:
        """Text goes on behind it."""
        self._within = ""

    def handle_data(self, data: str) -> None:
        """Notes what is to be read."""
        if self._within not in ("script", "style"):
            self.text += data


@pytest.fixture(scope="session")
def sample(tmp_path_factory: pytest.TempPathFactory) -> tuple[RunFolder, Findings]:
    """A small run with one of everything, judged once."""
    folder = sample_run.write(tmp_path_factory.mktemp("sample") / "run")
    spark: Any = InProcess()
    return folder, analyse(check(folder), spark)


@pytest.fixture
def judged(sample: tuple[RunFolder, Findings], tmp_path: Path) -> tuple[RunFolder, Findings]:
    """A copy of it."""
    return RunFolder(Path(shutil.copytree(sample[0].path, tmp_path / "run"))), sample[1]


def _evil(findings: Findings) -> Findings:
    """Every text of the findings that comes from data is hostile."""
    found = findings.model_dump(by_alias=True)

    def poisoned(value: Any, name: str = "") -> Any:
        if isinstance(value, dict):
            return {key: poisoned(one, key) for key, one in value.items()}
        if isinstance(value, list):
            return [poisoned(one, name) for one in value]
        known = (
            "schema",
            "verdict",
            "promise",
            "outcome",
            "stored",
            "delivered",
            "name",
            "mode",
            "when",
            "type",
            "isolation",
            "kind",
            "condition",
            "ended_by",
            "unavailable_ended_by",
            "isr_ended_by",
            "backlog_ended_by",
            "lag_ended_by",
        )
        return EVIL if isinstance(value, str) and name not in known else value

    return Findings.model_validate(poisoned(found))


def test_hostile_text_is_escaped_in_html(judged: tuple[RunFolder, Findings]) -> None:
    """Hostile texts in findings, events and manifest are there to be read, and nothing else."""
    folder, findings = judged
    events = next((folder.analysis / "events").glob("*.parquet"))
    named = pl.read_parquet(events).with_columns(
        pl.when(pl.col(name).is_not_null()).then(pl.lit(EVIL)).alias(name)
        for name in ("topic", "group", "member")
    )
    named.write_parquet(events)
    manifest = folder.read_manifest()
    folder.write_manifest(manifest.model_copy(update={"versions": {EVIL: EVIL}, "host": {EVIL: EVIL}}))
    sound, evil = (Tags(to_html(folder, told)) for told in (findings, _evil(findings)))
    assert EVIL in evil.text
    kinds = [{tag for tag, _ in one.tags} for one in (sound, evil)]
    assert kinds[0] == kinds[1] and "img" not in kinds[1]
    assert [sum(tag == "script" for tag, _ in one.tags) for one in (sound, evil)] == [4, 4]
    assert not [name for _, attributes in evil.tags for name in attributes if name.startswith("on")]


def test_page_has_no_external_references(judged: tuple[RunFolder, Findings]) -> None:
    """Nothing is loaded, and nothing but the charts' bundle as much as names an address."""
    folder, findings = judged
    document = to_html(folder, findings)
    tags = Tags(document)
    links = [
        v for _, attributes in tags.tags for n, v in attributes.items() if n in ("src", "href", "action")
    ]
    assert all(link and link.startswith(("#", "data:")) for link in links)
    scripts = re.findall(r"<script.*?</script>", document, re.DOTALL)
    bundle = max(scripts, key=len)
    assert "http" not in document.replace(bundle, "").replace("http-equiv", "")
    assert "unsafe-eval" not in document


def test_page_has_every_section(judged: tuple[RunFolder, Findings]) -> None:
    """Verdict, timeline, proof, ledger, stories, changes of leader, command."""
    folder, findings = judged
    document = to_html(folder, findings)
    text = Tags(document).text
    for said in (
        "VIOLATED",
        "confirmed",
        "Messages per second",
        "Leader of each partition",
        "Owner of each partition",
        "The fates add up to the 400 messages sent.",
        findings.faults[0].proof,
        findings.anomaly("lost")[0].examples[0].story,
        "kaput run scenario.yaml --seed",
        "acks=1",
    ):
        assert said in text, said
    timeline = json.loads(re.search(r'id="charts">(.*?)</script>', document, re.DOTALL)[1])  # type: ignore[index]
    assert {"faults", "rates", "ack", "end_to_end", "leaders", "isr", "owners"} <= set(
        timeline["runs"][0]["charts"]
    )


def test_cells_of_the_ledger_add_up(findings: Findings) -> None:
    """By row, by column, and all together; where they do not, that is reported."""
    table = fates_table(findings)

    def whole(cell: str | Cell) -> int:
        return int(text_of(cell).split()[0].replace(",", ""))

    for row in table.rows:
        assert sum(map(whole, row[1:-1])) == whole(row[-1])
    for column, total in enumerate(table.sums[1:], 1):
        assert sum(whole(row[column]) for row in table.rows) == whole(total)
    total = whole(table.sums[-1])
    assert total == findings.totals.sent and adds_up(total, findings).tone == "fine"
    more = findings.totals.model_copy(update={"sent": 41_000})
    broken = adds_up(total, findings.model_copy(update={"totals": more}))
    assert broken.tone == "note" and "NOT to the 41,000" in broken.text


def _long(folder: RunFolder, began_ns: int, seconds: int, each: int) -> None:
    """Puts a timeline of so many seconds in place of the run's, with `each` messages in every 100 ms."""
    for width in (100, 1_000, 10_000, 100_000):
        times = width // 100
        count = seconds * 10 // times
        number = pl.int_range(count, eager=True)
        rows = pl.DataFrame({"at_ns": began_ns + number * width * 1_000_000}).with_columns(
            *(pl.lit(each * times).alias(name) for name in ("sent", "acked", "delivered")),
            *(pl.lit(0).alias(name) for name in ("failed", "unknown", "lost")),
            *(
                (pl.lit(1.2345) + number % 97).alias(f"{what}_{share}_ms")
                for what in ("ack", "end_to_end")
                for share in ("p50", "p99", "max")
            ),
        )
        directory = folder.analysis / "timeline" / f"step_ms={width}"
        directory.mkdir(parents=True, exist_ok=True)
        rows.write_parquet(directory / "part-00000.parquet")


def test_a_page_does_not_grow_with_messages(judged: tuple[RunFolder, Findings]) -> None:
    """Ten thousand messages or ten million, a minute or ten hours: bounded, and hardly different."""
    folder, findings = judged
    began = findings.run.started_ns
    sizes = []
    for seconds, each in ((60, 10), (60, 10_000), (2_000, 500), (36_000, 300)):
        _long(folder, began, seconds, each)
        timeline = read_timeline(folder, findings)
        assert timeline is not None
        assert len(timeline.fine.rows) <= MOST_STEPS and len(timeline.table.rows) <= 400
        sizes.append(len(to_html(folder, findings)))
    assert sizes[1] - sizes[0] < 20_000
    assert max(sizes) < 1_600_000


@pytest.mark.parametrize("damage", ["", "not parquet"])
def test_damaged_analysis_only_drops_the_timeline(judged: tuple[RunFolder, Findings], damage: str) -> None:
    """Whatever is in analysis/, the page stands."""
    folder, findings = judged
    events = next((folder.analysis / "events").glob("*.parquet"))
    events.write_text(damage)
    assert "No timeline" in to_html(folder, findings)


def test_damaged_times_make_a_page(judged: tuple[RunFolder, Findings]) -> None:
    """One send centuries away: nothing is filled up, nothing fails."""
    folder, findings = judged
    for level in (folder.analysis / "timeline").glob("*/*.parquet"):
        rows = pl.read_parquet(level)
        far = rows.head(1).with_columns(pl.lit(2**63 - 10**9).alias("at_ns"))
        pl.concat([rows, far]).write_parquet(level)
    assert len(to_html(folder, findings)) < 1_600_000


def test_timeline_images_need_no_browser(judged: tuple[RunFolder, Findings]) -> None:
    """SVG and PNG of the timeline."""
    folder, findings = judged
    svg = to_svg([(folder, findings)])
    assert svg.startswith("<svg") and "VIOLATED" in svg and "Leader of each partition" in svg
    assert to_png([(folder, findings)]).startswith(b"\x89PNG")


def test_hostile_text_is_escaped_in_markdown(findings: Findings) -> None:
    """Hostile texts become no markup of an issue."""
    told = to_markdown(_evil(findings))
    assert "<script" not in told.replace("\\<script", "") and "<img" not in told.replace("\\<img", "")


def test_words_of_a_page_are_explained_by_the_glossary(judged: tuple[RunFolder, Findings]) -> None:
    """Every term has its meaning on hover; words with a synonym or Jepsen's name in brackets too."""
    page = to_html(*judged)
    explained = re.findall(r'data-about="[^"]*">([^<]*)</dfn>', page)
    assert {"drain", "lost", "permitted", "acked", "affected", "aborted-read"} <= set(explained)
    assert glossary()["rejected"].startswith("what a member of a share group")
    assert not [word for word in _terms(JudgedRun(judged[1])) if word not in glossary()]


def _terms(run: JudgedRun) -> set[str]:
    """The words of all terms in the document."""
    found = set()

    def look(value: Any) -> None:
        if isinstance(value, Term):
            found.add(value.word)
        elif is_dataclass(value):
            for one in fields(value):
                look(getattr(value, one.name))
        elif isinstance(value, list | tuple):
            for one in value:
                look(one)

    look(document(run))
    return found
