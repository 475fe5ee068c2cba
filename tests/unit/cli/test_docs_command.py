"""`kaput docs`: pages by name, anchor or word, also in a checkout whose site was not built."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from kaput.cli import docs
from kaput.errors import LabError, UsageError

sys.path.insert(0, str(Path(__file__).parents[3] / "scripts"))
import site_pages


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Without a site."""
    monkeypatch.setattr(docs, "SITE", tmp_path / "site")
    return docs.SOURCES


def shown(name: str | None, capsys: pytest.CaptureFixture[str]) -> str:
    docs.docs_command(name)
    return capsys.readouterr().out.strip()


def test_pages_of_a_checkout(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The files themselves."""
    assert shown(None, capsys) == f"{checkout}/README.md"
    assert shown("faults", capsys) == f"{checkout}/FAULTS.md"
    assert shown("0076-the-site", capsys) == f"{checkout}/decisions/0076-the-site.md"
    assert shown("ci#exit-status", capsys) == f"{checkout}/CI.md#exit-status"
    assert shown("Deposed leader", capsys) == f"{checkout}/GLOSSARY.md#deposed-leader"
    with pytest.raises(UsageError, match="'losss' is neither a page nor a word of the glossary"):
        docs.docs_command("losss")
    with pytest.raises(UsageError, match=r"of the glossary; in the text of .*GLOSSARY"):
        docs.docs_command("max.poll.interval.ms")


@pytest.mark.parametrize(
    ("word", "place"),
    [
        ("disk-full", "FAULTS.md#disk-full-brokers"),
        ("racks", "SCENARIO.md#cluster"),
        ("rack", "GLOSSARY.md#rack"),
    ],
)
def test_faults_and_keys_lead_to_their_sections(
    word: str, place: str, checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Words of the glossary come before them."""
    assert shown(word, capsys).startswith(f"{checkout}/{place}")


def test_a_linked_directory_with_a_readme_has_one_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page that the site makes is the one that the link leads to."""
    monkeypatch.setattr(site_pages, "ROOT", tmp_path)
    monkeypatch.setattr(site_pages, "DOCS", tmp_path / "docs")
    for name, text in (("docs/A.md", "[x](../examples)"), ("examples/README.md", "")):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text(text)
    made = {site_pages._page_of(each) for each in site_pages._linked_files()}
    assert made == {site_pages._on_site("A.md", "../examples")}


def test_keys_on_pages_of_the_site(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Their tables have no anchors, their headings do."""
    docs.SITE.mkdir()
    (docs.SITE / "GLOSSARY.html").touch()
    (docs.SITE / "FAULTS.html").write_text('<h3 id="kill-brokers">kill: brokers</h3>')
    page = '<h2 id="cluster">Cluster</h2><table><tr>\n<td><code>racks</code></td>'
    (docs.SITE / "SCENARIO.html").write_text(page)
    assert shown("kill", capsys) == f"{docs.SITE}/FAULTS.html#kill-brokers"
    assert shown("racks", capsys) == f"{docs.SITE}/SCENARIO.html#cluster"


def test_a_word_alike_is_proposed_once(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where it is a page and a word of the glossary."""
    monkeypatch.setattr(docs, "_anchors", lambda _: ["glossary", "glossary"])
    with pytest.raises(UsageError, match=r"did you mean glossary\?"):
        docs.docs_command("glosary")


def test_pages_of_the_site_come_first(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And its anchors are those of the pages."""
    docs.SITE.mkdir()
    (docs.SITE / "index.html").touch()
    (docs.SITE / "GLOSSARY.html").write_text('<td id="lost">')
    assert shown(None, capsys) == f"{docs.SITE}/index.html"
    assert shown("lost", capsys) == f"{docs.SITE}/GLOSSARY.html#lost"


def test_without_pages_and_sources(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sentence says where they come from."""
    monkeypatch.setattr(docs, "SOURCES", checkout / "nowhere")
    with pytest.raises(LabError, match="make site"):
        docs.docs_command(None)
