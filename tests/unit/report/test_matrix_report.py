"""The document of a matrix: figures of conclusive runs, and cells that lead to their rows."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from handmade_findings import anomaly, document

from kaput.evidence.findings import Findings
from kaput.report import matrix_report
from kaput.report.matrix_report import CellRuns
from kaput.report.render import html, markdown, terminal
from kaput.scenario.matrix import load_matrix

AGAIN = "kaput matrix --default"


def run(lost: int, verdict: str = "held", unavailable: float = 9000.0) -> tuple[str, Findings]:
    """A run that lost so many."""
    raw: dict[str, Any] = document()
    anomaly(raw, "lost")["count"] = lost
    raw["verdict"], raw["faults"][0]["unavailable_ms"] = verdict, unavailable
    return f"run-{lost}", Findings.model_validate(raw)


@pytest.fixture
def measured() -> list[CellRuns]:
    """Two cells with runs and ten without."""
    runs = {0: [run(10), run(0), run(20), run(99, "inconclusive")], 1: [run(0), run(0)]}
    return [CellRuns(cell, runs.get(at, [])) for at, cell in enumerate(load_matrix(None)[1][:12])]


def test_matrix_figures_use_conclusive_runs_only(measured: list[CellRuns]) -> None:
    """The inconclusive one is counted besides them; of two in three that lost, Wilson's interval is wide."""
    text = terminal.render(matrix_report.document(load_matrix(None)[0], measured, AGAIN)).plain
    assert re.search(
        r"fault=crash,acks=0,min-isr=1,unclean=off +3 \(and 1 inconclusive\) +10 \(0 to 20\) +"
        r"2 of 3 \(21 to 94 %\) +7 +9,000\n",
        text,
    )
    assert re.search(r"acks=0 min-isr=1 unclean=on +0 \(0/2\)\n", text)
    assert re.search(r"acks=0 min-isr=2 unclean=off +-\n", text)
    assert "6 runs of 12 cells" in matrix_report.document(load_matrix(None)[0], measured, AGAIN).head.verdict


def test_a_broken_promise_is_in_its_cell(measured: list[CellRuns]) -> None:
    """As bad news, whatever the numbers are."""
    broken = [CellRuns(measured[0].cell, [run(5, "violated"), run(5)])]
    text = terminal.render(matrix_report.document(load_matrix(None)[0], broken, AGAIN)).plain
    assert "5, 1 broke Kafka's promise" in text


def test_every_matrix_cell_links_to_its_repeat_command(measured: list[CellRuns]) -> None:
    """In Markdown and on the page: no link without its place."""
    made = matrix_report.document(load_matrix(None)[0], measured, AGAIN)
    for text in (markdown.render(made, heading="## {}"), html.render(made)):
        links = set(re.findall(r"(?:\(|href=\")#(fault[\w-]+)", text))
        assert links == set(re.findall(r"<a id=\"(fault[\w-]+)\"", text)) and len(links) == 2
        assert "kaput matrix --default --runs again --cells fault=crash,acks=0,min-isr=1,unclean=off" in text
        assert measured[0].cell.command in text.replace("&#39;", "'")
    assert "## crash\n" in markdown.render(made, heading="## {}")


def test_json_has_every_run_and_the_command(measured: list[CellRuns]) -> None:
    found = measured[0].to_json()
    assert found["command"] == measured[0].cell.command and found["fault"] == "crash"
    assert [one["lost"] for one in found["runs"]] == [10, 0, 20, 99]
    assert [found["lost"][name] for name in ("n", "median", "minimum", "maximum")] == [3, 10, 0, 20]
    assert found["runs_with_loss"] == 2 and measured[5].to_json()["share_with_loss_95"] is None
    assert Path(found["runs"][0]["folder"]).name == "run-10"
