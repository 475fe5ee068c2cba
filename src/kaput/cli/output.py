"""`--output markdown` and `--output csv`: a row for each entry of the document that a verb prints as JSON."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import sys
from collections.abc import Iterator
from typing import Any

from kaput.errors import UsageError


@contextlib.contextmanager
def printed_as(form: str, *, lines: bool = False) -> Iterator[None]:
    """Within the block, stdout is kept back; then the JSON document written there is printed as `markdown`
    or `csv`.

    `lines`: whether the verb prints a document again and again. Raises UsageError if so.
    """
    if lines:
        raise UsageError(f"--watch prints results again and again, which --output {form} cannot; use --json")
    kept = io.StringIO()
    try:
        with contextlib.redirect_stdout(kept):
            yield
    finally:  # a verb may end with its exit status as an exception, and what it prints before it fails counts
        if kept.getvalue().strip():
            rows = rows_of(json.loads(kept.getvalue()))
            sys.stdout.write(to_csv(rows) if form == "csv" else to_markdown(rows))


def rows_of(document: Any) -> list[dict[str, str]]:
    """The rows of a document: of a list its entries, of an object its only list of objects, or itself.

    Findings of a run are its figures. Nested objects become keys like `totals.sent`. Columns without any
    value are left out.
    """
    entries = document if isinstance(document, list) else _only_list(document)
    rows = [dict(_leaves("", _figures(entry))) for entry in entries]
    columns = dict.fromkeys(key for row in rows for key, value in row.items() if value != "")
    return [{key: row.get(key, "") for key in columns} for row in rows]


def to_csv(rows: list[dict[str, str]]) -> str:
    """Rows with a header, as RFC 4180 has them but for the line ends."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows([[*rows[0]], *(row.values() for row in rows)] if rows else [])
    return text.getvalue()


def to_markdown(rows: list[dict[str, str]]) -> str:
    """A table of GitHub's Markdown."""
    from kaput.report.document import Table
    from kaput.report.render.markdown import table_text

    if not rows:
        return ""
    return table_text(Table(tuple(rows[0]), [tuple(row.values()) for row in rows], align="l" * len(rows[0])))


def _only_list(document: dict[str, Any]) -> list[Any]:
    lists = [value for value in document.values() if isinstance(value, list) and value]
    objects = [value for value in lists if all(isinstance(each, dict) for each in value)]
    return objects[0] if len(objects) == 1 and "schema" not in document else [document]


def _figures(entry: Any) -> Any:
    if not isinstance(entry, dict) or not str(entry.get("schema", "")).startswith("kaput.findings/"):
        return entry
    from kaput.evidence.findings import Findings
    from kaput.report.comparison import FIGURES

    findings = Findings.model_validate(entry)
    run = findings.run
    told = {"run": run.id, "scenario": run.scenario, "seed": run.seed, "kafka": run.kafka, **run.varied}
    return told | {"verdict": findings.verdict} | {each.name: each.of(findings) for each in FIGURES}


def _leaves(path: str, value: Any) -> Iterator[tuple[str, str]]:
    match value:
        case dict() if value:
            for key, below in value.items():
                yield from _leaves(f"{path}.{key}" if path else key, below)
        case list() if all(not isinstance(each, dict | list) for each in value):
            yield path or "value", ", ".join(map(_text, value))
        case _:
            yield path or "value", _text(value)


def _text(value: Any) -> str:
    return "" if value is None else value if isinstance(value, str) else json.dumps(value)
