"""The anomaly that docs/ADDING_AN_ANOMALY.md adds, as its page has it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from fakes.histories import History
from kaput.analysis.engine.pieces import Parts, Piece
from kaput.analysis.engine.question import Cases
from kaput.analysis.facts.assignments import events_frame
from kaput.analysis.runs.names import Names
from kaput.analysis.runs.tables import units
from kaput.analysis.views.known import Known
from kaput.analysis.views.messages import Messages
from kaput.analysis.views.rows import encode, tables
from kaput.evidence.reading import check

PAGE = Path(__file__).parents[3] / "docs" / "ADDING_AN_ANOMALY.md"
NAMES = Names(["orders"], ["billing"], ["m1"])


def test_question_of_the_guide_finds_its_anomaly(tmp_path: Path) -> None:
    """Of two messages, the one that was delivered more than a minute after its acknowledgement."""
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    page: dict[str, Any] = {"__name__": "stale"}
    exec(compile(code, str(PAGE), "exec"), page)
    history = History(groups={"billing": True}).acked(0, 0, 0).acked(0, 1, 1)
    history.handed(0, 0, 0, 50_000).handed(1, 0, 1, 61_500)
    evidence = check(history.read_to_end().write(tmp_path / "run"))
    known = Known(NAMES, Parts(1, 1), 1, events_frame(NAMES, []))
    every = [unit for table in ("sends", "log", "deliveries") for unit in units(evidence, table)]
    pieces: list[Piece] = [piece for number, piece in encode(tables(every, NAMES), known, ()) if number == 0]
    (cases,) = page["Stale"]().of_messages(Messages(pieces, known, {}, 0))
    assert isinstance(cases, Cases) and cases.name == "stale"
    (case,) = cases.rows.to_dicts()
    assert (case["group"], case["seq"], case["n"]) == (0, 1, 1)
    assert page["Stale"].stories["stale"](case) == (
        "producer 0's message 1 was delivered first at 22:14:21.500, 61 s late"
    )
