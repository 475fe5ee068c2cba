"""Compares schemas, for registries that keep their subjects in a compacted topic (`_schemas`). Pure.

Messages contain the id of their schema: if a subject has another id or none in the target, they cannot be
decoded there.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from kaput.cluster.record_batches import LogRecord
from kaput.compare.answer import IDENTICAL, LOST, Row
from kaput.core import plural

_EXAMPLES = 5
Subjects = Mapping[tuple[str, int], Mapping[str, Any]]


def is_schema_topic(topic: str) -> bool:
    """Whether it is a schema topic, by the registries' naming: `_schemas`, `_schemas_dc1`, ..."""
    return topic.startswith("_schemas") or topic.endswith("._schemas")


def subjects(records: Iterable[LogRecord]) -> Subjects:
    """The schemas by subject and version, without deleted ones."""
    found: dict[tuple[str, int], Mapping[str, Any]] = {}
    for record in records:
        try:
            key, value = json.loads(record.key or b"null"), json.loads(record.value or b"null")
        except ValueError:
            continue
        if not isinstance(key, dict) or key.get("keytype") != "SCHEMA":
            continue
        name = (str(key.get("subject")), int(key.get("version") or 0))
        if isinstance(value, dict) and not value.get("deleted"):
            found[name] = value
        else:
            found.pop(name, None)
    return found


def row(topic: str, source: Subjects, target: Subjects) -> Row:
    """The row for schemas that are missing, or that have another id or content."""
    wrong = [
        {
            "subject": subject,
            "version": version,
            "source_id": schema.get("id"),
            "target_id": target.get((subject, version), {}).get("id"),
            "why": why,
        }
        for (subject, version), schema in sorted(source.items())
        if (why := _difference(schema, target.get((subject, version))))
    ]
    counts = {"source": len(source), "target": len(target), "different": len(wrong)}
    what = f"topic {topic}"
    if wrong:
        meaning = (
            f"{plural(len(wrong), 'schema')} cannot be used in the target: messages that carry their ids "
            "cannot be decoded."
        )
        return Row(what, "schemas", LOST, meaning, counts=counts, examples=wrong[:_EXAMPLES])
    return Row(what, "schemas", IDENTICAL, "Each schema has the same id on both sides.", counts=counts)


def _difference(schema: Mapping[str, Any], there: Mapping[str, Any] | None) -> str:
    if there is None:
        return "missing"
    if schema.get("id") != there.get("id"):
        return "another id"
    return "another schema" if schema.get("schema") != there.get("schema") else ""
