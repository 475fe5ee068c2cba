"""Reads compare/<from>-<to>.json: the comparison of a mirror's source and target at the end of a run.

In the format of `kaput compare --json`; only the fields that are judged are read. Not here: comparing
(compare/).
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field, ValidationError

from kaput.errors import EvidenceError
from kaput.evidence.folder import RunFolder, mistakes_of
from kaput.scenario.block import Described

COMPARE_SCHEMA: Literal["kaput.compare/1"] = "kaput.compare/1"
Status = Literal["identical", "differs by design", "lost"]


class ComparedRow(Described):
    """One aspect of a topic, of a group or of the clusters."""

    what: str
    aspect: str
    status: Status


class RecordedComparison(Described):
    """One comparison. `status`: the worst of all rows; None if it could not be done, then `notes` say why."""

    schema_: Literal["kaput.compare/1"] = Field(COMPARE_SCHEMA, alias="schema")
    source: str
    target: str
    status: Status | None
    rows: list[ComparedRow] = Field(default_factory=list)
    notes: list[str] = Field(default_factory=list)

    @property
    def lost(self) -> list[str]:
        """The rows that are lost: `topic orders, records`."""
        return [f"{row.what}, {row.aspect}" for row in self.rows if row.status == "lost"]


def read_compared(folder: RunFolder, source: str, target: str) -> RecordedComparison | None:
    """Reads the comparison of two clusters; None if there is none. Raises EvidenceError naming the file."""
    path = folder.comparison(source, target)
    try:
        comparison = RecordedComparison.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except OSError as error:
        raise EvidenceError(f"{path}: cannot be read ({error.strerror})") from None
    except ValidationError as error:
        raise EvidenceError(f"{path}: {mistakes_of(error)}") from None
    # Cluster names may have hyphens: a-b->c and a->b-c share a file name.
    return comparison if (comparison.source, comparison.target) == (source, target) else None
