"""The variables of a Compose file, as Compose fills them in: from the environment, .env, and env_file."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from kaput.errors import UsageError
from kaput.scenario.cluster_files.described_cluster import KIND, Setting
from kaput.scenario.cluster_files.yaml_documents import Document
from kaput.scenario.source import read

# A default or a replacement may have variables itself: ${A:-${B:-c}}.
_VARIABLE = re.compile(
    r"\$\$|\$\{(?P<braced>\w+)(?:(?P<how>:?[-?+])(?P<text>(?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*))?\}"
    r"|\$(?P<bare>[A-Za-z_]\w*)|(?P<wrong>\$\{[^}]*\}?)"
)
_NAMED = re.compile(r"[^\s=]+(?:=|$)")
_ENTRY = re.compile(r"""(?:export\s+)?(\w+)\s*[=:]\s*(?:"([^"]*)"|'([^']*)'|(.*?))\s*(?:(?<=\s)#.*)?""")


class Variables:
    """Those of the environment, else of the file .env next to the Compose file; `unset`: those that were
    wanted and are in neither.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.unset: dict[str, None] = {}
        dotenv = path.parent / ".env"
        self._known = dict(os.environ)
        for name, setting in (_entries(dotenv) if dotenv.is_file() else {}).items():
            self._known.setdefault(name, self.expanded(setting.value, setting.place))

    def expanded(self, text: str, place: str) -> str:
        """The text with their values, or defaults, or nothing. Raises UsageError for `${NAME:?}`."""
        return _VARIABLE.sub(lambda match: self._value(match, place), text)

    def _value(self, match: re.Match[str], place: str) -> str:
        if match[0] == "$$":
            return "$"
        if match["wrong"]:
            raise UsageError(
                f"{place}: {match[0]}: no variable of Compose; write $${match[0][1:]} for a plain $"
            )
        name, how = match["braced"] or match["bare"], match["how"] or ""
        value = self._known.get(name)
        missing = value is None or (how.startswith(":") and not value)
        if how.endswith("+"):
            return "" if missing else self.expanded(match["text"], place)
        if missing and how.endswith("?"):
            raise UsageError(f"{place}: {match[0]}: set {name} in the environment, or in a file .env")
        if missing and how.endswith("-"):
            return self.expanded(match["text"], place)
        if value is None:
            self.unset[name] = None
        return value or ""

    def active(self, profiles: list[str]) -> bool:
        """Whether one of these profiles is chosen."""
        chosen = {each.strip() for each in self._known.get("COMPOSE_PROFILES", "").split(",")}
        return bool(chosen & {"*", *profiles})

    def of_service(self, document: Document, name: str) -> dict[str, Setting]:
        """A service's environment; a name without a value has that of the variable, if there is one."""
        at = ("services", name, "environment")
        environment = document.mapping("services", name).get("environment") or []
        if not isinstance(environment, list):
            environment = document.mapping(*at)
            pairs = [(str(key), value, document.place(*at, key)) for key, value in environment.items()]
        else:
            for number, entry in enumerate(environment):
                if not isinstance(entry, str) or not _NAMED.match(entry):
                    raise UsageError(f"{document.place(*at, number)}: {entry} is not NAME=VALUE")
            entries = [entry.partition("=") for entry in environment]
            pairs = [
                (key, value if equals else None, document.place(*at, number))
                for number, (key, equals, value) in enumerate(entries)
            ]
        known = (
            (key, self._known.get(key) if value is None else value, place) for key, value, place in pairs
        )
        return {
            key: Setting(str(value).lower() if isinstance(value, bool) else self._text(value, place), place)
            for key, value, place in known
            if value is not None
        }

    def _text(self, value: Any, place: str) -> str:
        if isinstance(value, dict | list):
            raise UsageError(f"{place}: a variable's value is one text, and this is a list or a mapping")
        return self.expanded(str(value), place)

    def of_files(self, document: Document, name: str) -> dict[str, Setting]:
        """What a service's `env_file` says: a path, or several, which may be `{path: ..., required: ...}`."""
        files = document.mapping("services", name).get("env_file") or []
        place = document.place("services", name, "env_file")
        found: dict[str, Setting] = {}
        for each in [files] if isinstance(files, str | dict) else files:
            entry = each if isinstance(each, dict) else {"path": each}
            if (path := entry.get("path")) is None:
                raise UsageError(f"{place}: env_file: {each} has no path")
            file = self.path.parent / self.expanded(str(path), place)
            if not entry.get("required", True) and not file.exists():
                continue
            try:
                entries = _entries(file)
            except UsageError as error:
                raise UsageError(f"{place}: env_file: {error}") from None
            found |= {
                key: Setting(self.expanded(value, where), where) for key, (value, where) in entries.items()
            }
        return found


def _entries(path: Path) -> dict[str, Setting]:
    """The variables of a file such as .env."""
    lines = enumerate(read(path, KIND).splitlines(), 1)
    entries = ((number, _ENTRY.fullmatch(line.strip())) for number, line in lines)
    return {
        each[1]: Setting(each[2] or each[3] or each[4] or "", f"{path}:{number}")
        for number, each in entries
        if each is not None
    }
