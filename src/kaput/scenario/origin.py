"""Where the values of a scenario were written: its file, the file that describes its cluster, or an option.

Not here: what is wrong with them (mistakes.py).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from kaput.scenario.cluster_files.reading import CONFIG_FILE
from kaput.scenario.mistakes import Mistake, value_at
from kaput.scenario.model import Scenario
from kaput.scenario.overrides import Override
from kaput.scenario.source import DataPath, Source, dotted

_KEPT = "_origin"


@dataclass(frozen=True)
class Origin:
    """`overrides`: applied to the source, in this order; `described`: the file that all settings are from;
    `left_out`: sentences on files that describe its clusters, of which not all was taken over.
    """

    source: Source | None = None
    overrides: Sequence[Override] = ()
    described: Path | None = None
    left_out: Sequence[str] = ()

    def placed(self, mistake: Mistake) -> tuple[int, str]:
        """The mistake as (sort key, line of text), at the last change of that value if there is one."""
        path = mistake.path
        for override in reversed(self.overrides):
            if path[: len(override.path)] == override.path:
                inside = "" if path == override.path else f"{dotted(path)}: "
                return 0, f"{override.option} {override.text}: {inside}{mistake.text}"
        file = self._described(path)
        if file is not None and (line := line_of(file, path)) is not None:
            return 0, f"{file}:{line}: {path[-1]}: {mistake.text}"
        if self.source is None:
            return 0, str(mistake)
        line = self.source.line(path)
        return line, f"{self.source.name}:{line}: {mistake}"

    def _described(self, path: DataPath) -> Path | None:
        """The file that describes the cluster, if the setting at `path` is not in the scenario itself."""
        for override in reversed(self.overrides):
            if override.path == (*path[:-2], CONFIG_FILE):
                return Path(str(override.value))
        block = None if self.source is None else value_at(self.source.data, path[:-2])
        if self.source is None or not isinstance(block, dict) or CONFIG_FILE not in block:
            return self.described
        if path[-1] in (block.get("config") or {}):
            return None
        return Path(self.source.name).parent / str(block[CONFIG_FILE])


def line_of(file: Path, path: DataPath) -> int | None:
    """The last line of a server.properties, Compose or Strimzi file that has the setting at `path`."""
    name = str(path[-1])
    variable = f"KAFKA_{name.upper().replace('.', '_')}"
    written = re.compile(rf"[^#]*(?<![\w.-])(?:{re.escape(name)}|{variable})(?![\w.-])")
    with suppress(OSError, UnicodeDecodeError):
        lines = list(enumerate(file.read_text(encoding="utf-8-sig").splitlines(), 1))
        return next((number for number, line in reversed(lines) if written.match(line)), None)
    return None


def keep_origin(scenario: Scenario, origin: Origin) -> Scenario:
    """The scenario, of which `origin_of` will say this; it is no part of what it is compared by."""
    object.__setattr__(scenario, _KEPT, origin)  # the model is frozen
    return scenario


def origin_of(scenario: Scenario) -> Origin:
    """Where its values were written, as far as that is known; also of a copy."""
    origin: Origin = scenario.__dict__.get(_KEPT, Origin())
    return origin
