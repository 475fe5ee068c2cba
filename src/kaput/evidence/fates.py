"""The fates document, kaput.fates/1: what `kaput analyze --only fates` says. Nothing in it is judged."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from kaput.evidence.findings import Fate, GroupFate, Part, Run, Totals


class GroupFates(Part):
    """One consumer group."""

    group: str
    fates: list[GroupFate]


class Fates(Part):
    """What became of every message: the same numbers as under these names in findings.json."""

    schema_: Literal["kaput.fates/1"] = Field(default="kaput.fates/1", alias="schema")
    run: Run
    totals: Totals
    fates: list[Fate]
    groups: list[GroupFates]

    def to_json(self) -> str:
        """The document."""
        return self.model_dump_json(by_alias=True, indent=2)
