"""The examples that the findings show: the first few cases of each name and group, in one order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kaput.analysis.closer.commits import Ahead
from kaput.analysis.closer.found import SHOWN, first, named
from kaput.analysis.dense.numbers import NULL, Ints
from kaput.analysis.dense.split import grouped
from kaput.analysis.dense.summary import Summary
from kaput.analysis.names import Names

_BY_PLACE = ("place", "offset", "at_ns", "producer", "seq", "member")
_FATES = ("producer", "seq", "place", "offset", "at_ns", "topic", "times", "error")
_PHANTOM = ("place", "offset", "producer", "seq")


class Shown:
    """Gathers examples, by name and group."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self._rows: list[dict[str, Any]] = []

    def add(self, rows: Sequence[dict[str, Any]]) -> None:
        """Rows that are told already."""
        self._rows += rows

    def put(self, name: str, columns: Mapping[str, Ints], order: Sequence[str] = _BY_PLACE) -> None:
        """Cases of one name as columns; those of each group on their own."""
        if "grp" not in columns:
            self._first(name, columns, order)
            return
        for _, rows in grouped(columns["grp"]):
            self._first(name, {key: column[rows] for key, column in columns.items()}, order)

    def _first(self, name: str, columns: Mapping[str, Ints], order: Sequence[str]) -> None:
        known = [column for column in order if column in columns]
        self._rows += [{**named(row, self._names), "name": name} for row in first(columns, known)]

    def put_commits(self, found: Sequence[Ahead]) -> None:
        """Commits that were ahead."""
        by_group: dict[int, list[Ahead]] = {}
        for commit in found:
            by_group.setdefault(commit.grp, []).append(commit)
        for commits in by_group.values():
            for commit in sorted(commits, key=lambda c: (c.place, c.offset, c.at_ns, c.member))[:SHOWN]:
                row = {**commit._asdict(), "other_offset": commit.passed}
                self._rows.append({**named(row, self._names), "name": "commit-ahead"})

    def all(self, summary: Summary, subscribed: Mapping[int, Sequence[str] | None]) -> list[dict[str, Any]]:
        """Everything gathered, and what the engine has put aside to be shown."""
        unseen: dict[int, list[tuple[Any, ...]]] = {}
        for (name, group, topic), rows in summary.shown.items():
            if name == "unseen":
                topics = subscribed.get(group, [])
                if topics is None or self._names.topics[topic] in topics:
                    unseen.setdefault(group, []).extend(rows)
            else:
                self._fates(name, None, rows)
        for group, found in unseen.items():
            self._fates("unseen", group, sorted(found)[:SHOWN])
        return self._rows

    def _fates(self, name: str, group: int | None, rows: Sequence[tuple[Any, ...]]) -> None:
        keys = _PHANTOM if name == "phantom" else _FATES
        for row in rows:
            told = {key: None if value == NULL else value for key, value in zip(keys, row, strict=True)}
            self._rows.append({**named({**told, "grp": group}, self._names), "name": name})
