"""The run folder: its paths and its manifest. It is the only input of every stage.

Not here: the tables' schemas (schemas.py), sealing (sealing.py), checking folders of other writers
(reading.py).
"""

from __future__ import annotations

import json
import os
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Annotated, Any, Literal

from pydantic import Field, JsonValue, ValidationError
from pydantic_core import from_json

from kaput.core import DEFAULT_RUNS
from kaput.errors import EvidenceError, UsageError
from kaput.scenario.block import Described
from kaput.scenario.nearest import nearest
from kaput.scenario.vocabulary import Isolation

EVIDENCE_SCHEMA = "kaput.evidence/1"
State = Literal["recording", "sealed", "analysed"]
Moment = Annotated[int, Field(ge=-(2**63) + 1, lt=2**63)]  # ns since the epoch, in the range of tables


class GroupDrain(Described):
    """Whether a group had read everything that is stored when the run ended, and its isolation level."""

    group: str
    drained: bool
    isolation: Isolation | None = None


class StoreRead(Described):
    """A store of the run, and whether it could be listed at the end."""

    store: str
    kind: str
    read: bool


class MirrorEnd(Described):
    """A mirror of the run, and whether the target had everything of the source when it was looked at last."""

    mirror: str
    from_: str = Field(alias="from")
    to: str
    drained: bool


class Manifest(Described):
    """manifest.json. Readers ignore fields that they do not know."""

    schema_: Literal["kaput.evidence/1"] = EVIDENCE_SCHEMA  # type: ignore[assignment]
    """The version of this format."""
    run_id: uuid.UUID
    """Unique; part of every message's payload."""
    scenario: str
    """The scenario's short name."""
    seed: int = 0
    """What the run's random choices were drawn from."""
    varied: dict[str, JsonValue] = {}
    """The values that --vary set, by their keys in the scenario."""
    scale: float = 1.0
    """What the times of the scenario were multiplied by, to save time."""
    shares_cluster_with: list[str] = []
    """The folders of the runs that were hit by the same faults of the same cluster at the same time."""
    state: State
    """recording, sealed (all tables are complete Parquet files) or analysed."""
    mode: str = "kraft"
    """kraft or zookeeper."""
    versions: dict[str, str | None] = {}
    """Of kaput, kafka, MirrorMaker, python, java, librdkafka; null if unknown."""
    host: dict[str, Any] = {}
    """Facts about the machine."""
    started_ns: Moment = 0
    """Start of the load."""
    ended_ns: Moment | None = None
    """End of the run; null while it is recorded, and if it never ended in good order."""
    groups: list[GroupDrain] = []
    """By group: `group`, `drained` (whether it had read everything) and `isolation` (null if unknown)."""
    stores: list[StoreRead] = []
    """By store: `store`, `kind`, and `read` (whether it could be listed at the end of the run)."""
    mirrors: list[MirrorEnd] = []
    """By mirror: `mirror` (as in `dc1->dc2`), `from`, `to`, and `drained` (whether everything in the source
    had reached the target at the end of the run)."""
    troubles: list[str] = []
    """The lab's own failures in sentences; each makes the run inconclusive."""
    unreadable_lines: dict[str, int] = {}
    """By table: how many lines of another program's file could not be read."""
    notes: list[str] = []
    """What else the lab has to say, in sentences that change no verdict."""
    libraries: dict[str, list[str]] = {}
    """By kind of client (`producers (java 3.9.2)`): the library and its version, as its processes said."""
    features: dict[str, dict[str, int]] = {}
    """By cluster (the only one has an empty name): levels of Kafka's features when the load began."""
    features_at_end: dict[str, dict[str, int]] = {}
    """The same at the end of the run."""
    phases: dict[str, float] = {}
    """Seconds that each phase took."""
    phase: str = ""
    """The phase that the run is in, or was in when it ended."""


@dataclass(frozen=True)
class RunFolder:
    """Paths inside one run folder; `path` is the folder itself, `origin` where it was copied from.
    `copy_back_error`: why results cannot be copied back to the origin, None if they can. `derived`: where the
    analysis writes, if not next to the evidence. `imported`: where the tables `foreign` were converted to,
    which another program wrote (foreign.py).
    """

    path: Path
    origin: str | None = None
    copy_back_error: OSError | None = None
    derived: Path | None = None
    imported: Path | None = None
    foreign: frozenset[str] = frozenset()

    @property
    def title(self) -> str:
        """The path that the user gave."""
        return self.origin or str(self.path)

    @property
    def name(self) -> str:
        """The last part of the path that the user gave."""
        return PurePath(self.origin or self.path.resolve()).name

    @property
    def manifest_path(self) -> Path:
        return self.path / "manifest.json"

    @property
    def scenario_path(self) -> Path:
        """scenario.yaml, as resolved."""
        return self.path / "scenario.yaml"

    @property
    def findings_path(self) -> Path:
        return self.path / "findings.json"

    @property
    def brokers(self) -> Path:
        return self.path / "brokers"

    @property
    def analysis(self) -> Path:
        """The tables derived by the analysis: ledger/, windows/, rates/."""
        return self.derived or self.path / "analysis"

    def comparison(self, source: str, target: str) -> Path:
        return self.path / "compare" / f"{source}-{target}.json"

    def table(self, name: str) -> Path:
        """evidence/TABLE/, or what was made of it."""
        if self.imported is not None and name in self.foreign:
            return self.imported / name
        return self.path / "evidence" / name

    def write_manifest(self, manifest: Manifest) -> None:
        """Replaces manifest.json atomically."""
        document = manifest.model_dump(mode="json", by_alias=True)
        document = {"schema": document.pop("schema_"), **document}
        replace_text(self.manifest_path, json.dumps(document, indent=2) + "\n")

    def read_manifest(self) -> Manifest:
        """Reads and checks manifest.json. Raises EvidenceError naming the file."""
        try:
            # Stricter than Python's json: rejects lone surrogates and unlimited depth.
            document = from_json(self.manifest_path.read_bytes())
        except (FileNotFoundError, NotADirectoryError):
            raise EvidenceError(not_a_run(self.path)) from None
        except OSError as error:
            raise EvidenceError(f"{self.manifest_path}: cannot be read ({error.strerror})") from None
        except ValueError as error:
            raise EvidenceError(f"{self.manifest_path}: not JSON ({error})") from None
        if not isinstance(document, dict):
            raise EvidenceError(f"{self.manifest_path}: not a JSON object")
        schema = document.pop("schema", None)
        if schema != EVIDENCE_SCHEMA:
            raise EvidenceError(
                f"{self.manifest_path}: schema is {schema!r}; this kaput reads {EVIDENCE_SCHEMA!r}"
            )
        try:
            return Manifest.model_validate(document)
        except ValidationError as error:
            raise EvidenceError(f"{self.manifest_path}: {mistakes_of(error)}") from None


def mistakes_of(error: ValidationError) -> str:
    return "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors())


def create_directory(path: Path) -> None:
    """Creates a directory for output, with parents, unless it exists. Raises UsageError."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{path}: cannot be created ({error.strerror})") from None
    if not os.access(path, os.W_OK | os.X_OK):
        raise UsageError(f"{path}: this user may not write there")


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A file next to it, which replaces it at the end of the block, unless that fails. Raises OSError."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{threading.get_ident()}")
    try:
        yield temporary
        temporary.replace(path)
    finally:
        with suppress(OSError):
            temporary.unlink()


def replace_text(path: Path, text: str) -> None:
    """Writes a file atomically. Raises OSError."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def not_a_run(path: Path) -> str:
    """The message for a path without manifest.json, suggesting a run folder."""
    if not path.exists():
        return _no_such_folder(path)
    if runs := sorted(each.parent for each in path.glob("*/manifest.json")):
        return f"{path}: not a run folder, but it has {len(runs)} of them; name one, such as {runs[-1]}"
    return f"{path}: not a run folder (it has no manifest.json); kaput run makes them"


def _no_such_folder(path: Path) -> str:
    """The message for a missing run folder, suggesting a similar one."""
    beside = DEFAULT_RUNS / path
    near = [str(beside)] if beside.is_dir() else []
    if not near and path.parent.is_dir():
        similar = nearest(path.name, [each.name for each in path.parent.iterdir() if each.is_dir()])
        near = [str(path.parent / name) for name in similar]
    return f"{path}: no such run folder" + (
        f"; did you mean {near[0]}?" if near else "; kaput run makes them"
    )
