"""`--output markdown` and `--output csv`: a row for each entry of the document that a verb prints as JSON."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from kaput.errors import UsageError

# Of documents with more columns than a page is wide: those of their Markdown table.
_MARKDOWN_COLUMNS = {
    "kaput scenarios list": ("name", "title", "tags", "brokers", "producers", "messages", "expect.verdict"),
}


@contextlib.contextmanager
def printed_as(form: str, *, lines: bool = False, verb: str = "") -> Iterator[None]:
    """Within the block, stdout is kept back; then the JSON document written there is printed as `markdown`
    or `csv`.

    `lines`: whether the verb prints a document again and again. Raises UsageError if so. `verb`: with
    `kaput` and its group, if it has one.
    """
    if lines:
        raise UsageError(f"--watch prints results again and again, which --output {form} cannot; use --json")
    kept = io.StringIO()
    try:
        with contextlib.redirect_stdout(kept):
            yield
    finally:  # a verb may end with its exit status as an exception, and what it prints before it fails counts
        if kept.getvalue().strip():
            rows = rows_of(json.loads(kept.getvalue()), rounded=form == "markdown")
            sys.stdout.write(
                to_csv(rows) if form == "csv" else to_markdown(rows, _MARKDOWN_COLUMNS.get(verb))
            )


def rows_of(document: Any, rounded: bool = False) -> list[dict[str, str]]:
    """The rows of a document: of a list its entries, of an object its only list of objects (of several its
    partitions), or itself.

    Findings of a run are its figures, named as in `--columns`. Nested objects become keys like
    `totals.sent`. Columns without any value are left out. `rounded`: figures as reports show them.
    """
    entries = document if isinstance(document, list) else _only_list(document)
    rows = [dict(_leaves("", _figures(entry, rounded))) for entry in entries]
    columns = dict.fromkeys(key for row in rows for key, value in row.items() if value != "")
    return [{key: row.get(key, "") for key in columns} for row in rows]


def to_csv(rows: list[dict[str, str]]) -> str:
    """Rows with a header, as RFC 4180 has them but for the line ends."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows([[*rows[0]], *(row.values() for row in rows)] if rows else [])
    return text.getvalue()


def to_markdown(rows: list[dict[str, str]], columns: Sequence[str] | None = None) -> str:
    """A table of GitHub's Markdown. `columns`: only these (default: all)."""
    from kaput.report.document import Table
    from kaput.report.render.markdown import table_text

    if not rows:
        return ""
    shown = [name for name in rows[0] if columns is None or name in columns]
    cells = [tuple(row[name] for name in shown) for row in rows]
    return table_text(Table(tuple(shown), cells, align="l" * len(shown)))


def _only_list(document: dict[str, Any]) -> list[Any]:
    lists = {name: value for name, value in document.items() if isinstance(value, list) and value}
    objects = {name: value for name, value in lists.items() if all(isinstance(each, dict) for each in value)}
    if "schema" in document:
        return [document]
    # The status of a cluster has lists of its brokers, groups and faults, too.
    return next(iter(objects.values())) if len(objects) == 1 else objects.get("partitions", [document])


def _figures(entry: Any, rounded: bool) -> Any:
    if not isinstance(entry, dict) or not str(entry.get("schema", "")).startswith("kaput.findings/"):
        return entry
    from kaput.evidence.findings import Findings
    from kaput.report.comparison import FIGURES, key_of
    from kaput.report.document import number

    findings = Findings.model_validate(entry)
    run = findings.run
    about = {"run": run.id, "scenario": run.scenario, "seed": run.seed, "kafka": run.kafka, **run.varied}
    figures = {key_of(each.name): each.of(findings) for each in FIGURES}
    known = {name: value for name, value in figures.items() if value is not None}
    shown = {name: number(value) if rounded else round(value, 3) for name, value in known.items()}
    return about | {"verdict": findings.verdict} | shown


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
