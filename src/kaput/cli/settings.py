"""Defaults for options, from files and the environment (docs/COMMAND_LINE.md).

An option on the command line wins over KAPUT_NAME, that over the project's file (kaput.toml, or [tool.kaput]
in pyproject.toml, in the nearest directory upward that has one), that over the user's kaput.toml.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kaput.core import DEFAULT_RUNS
from kaput.errors import UsageError, unreadable
from kaput.scenario.nearest import hint

# What each setting takes; of a network, the words.
KEYS: dict[str, type | tuple[str, ...]] = {
    "runs": Path,
    "cluster": str,
    "page": bool,
    "kafka": str,
    "network": ("loopback", "namespaces"),
}
_NAME = r'"?kaput"?\s*[\].=]'
_TABLES = (rf"\s*\[*\s*tool\s*\.\s*{_NAME}", rf"\s*{_NAME}")  # pyproject's table; its key in [tool]
_BOOLEANS = {"true": True, "1": True, "false": False, "0": False}
# Not options of a verb but of clusters that kaput starts, where the scenario leaves them open.
_OF_CLUSTERS = ("kafka", "network")


@dataclass(frozen=True)
class Setting:
    """A default and where it is from: `kafka in kaput.toml:2`, `KAPUT_KAFKA`."""

    value: Any
    origin: str


def read_settings() -> dict[str, Setting]:
    """All settings. Raises UsageError with the file and line of one that is wrong."""
    settings: dict[str, Setting] = {}
    for path in (_users_file(), _projects_file()):
        if path is not None and path.is_file():
            settings |= _in_file(path)
    for key, wanted in KEYS.items():
        name = f"KAPUT_{key.upper()}"
        if text := os.environ.get(name):
            value = _BOOLEANS.get(text.lower(), text) if wanted is bool else text
            settings[key] = Setting(_checked(key, value, name, Path()), name)
    return settings


def defaults_of(command: Any, settings: Mapping[str, Setting]) -> dict[str, Any]:
    """click's `default_map` of a command and those below it."""
    below = getattr(command, "commands", None)
    if below is not None:
        return {name: defaults_of(each, settings) for name, each in below.items()}
    names = {each.name: each.default for each in command.params if each.param_type_name == "option"}
    found = {
        key: setting.value
        for key, setting in settings.items()
        if key in names and key not in _OF_CLUSTERS and (key, command.name) != ("cluster", "up")
    }
    if "runs" in found:  # runs/matrix stays below it
        found["runs"] = Path(found["runs"]) / Path(names["runs"]).relative_to(DEFAULT_RUNS)
    return found


def cluster_defaults(
    scenario: Mapping[str, Any], settings: Mapping[str, Setting], given: Collection[str] = ()
) -> dict[str, Setting]:
    """The settings that a scenario (its YAML) leaves open, without the keys of `cluster` given otherwise."""
    cluster = scenario.get("cluster") or {}
    if "clusters" in scenario or not isinstance(cluster, Mapping):
        return {}
    taken = {*cluster, *given, *(("kafka",) if "mode" in {*cluster, *given} else ())}
    return {key: settings[key] for key in _OF_CLUSTERS if key in settings and key not in taken}


def _users_file() -> Path:
    import platformdirs

    return Path(platformdirs.user_config_dir("kaput")) / "kaput.toml"


def _projects_file() -> Path | None:
    here = Path.cwd()
    for directory in (here, *here.parents):
        own, python = directory / "kaput.toml", directory / "pyproject.toml"
        if own.is_file():
            return own
        if python.is_file() and "kaput" in _tools(_parsed(python)[0]):
            return python
    return None


def _in_file(path: Path) -> dict[str, Setting]:
    (data, lines), begin = _parsed(path), 0
    if path.name == "pyproject.toml":
        data = _tools(data)["kaput"]
        begin = next((n for table in _TABLES for n, line in enumerate(lines) if re.match(table, line)), 0)
        if not isinstance(data, dict):
            raise UsageError(f"{path}:{begin + 1}: tool.kaput is no table; write [tool.kaput]")
    settings = {}
    for key, value in data.items():
        named = re.compile(rf'\s*"?{re.escape(key)}\b')
        at = next((n for n, line in enumerate(lines, 1) if n > begin and named.match(line)), begin + 1)
        if key not in KEYS:
            raise UsageError(f"{path}:{at}: no setting {key}; {hint(key, KEYS)}")
        where = f"{path}:{at}: {key}"
        settings[key] = Setting(_checked(key, value, where, path.parent), f"{key} in {path}:{at}")
    return settings


def _tools(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """The tables of tools; none in a file that has none, or something else there."""
    tools = data.get("tool")
    return tools if isinstance(tools, dict) else {}


def _parsed(path: Path) -> tuple[dict[str, Any], list[str]]:
    try:
        text = path.read_text(encoding="utf-8")
        return tomllib.loads(text), text.splitlines()
    except tomllib.TOMLDecodeError as error:
        what, _, where = str(error).rpartition(" (at ")
        at = re.findall(r"\d+", where) or [str(len(text.splitlines()))]  # else "end of document"
        raise UsageError(f"{':'.join([str(path), *at])}: not valid TOML: {what}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise unreadable(path, error) from None


def _checked(key: str, value: Any, where: str, directory: Path) -> Any:
    """The value as the option takes it; relative paths are relative to the file."""
    wanted = KEYS[key]
    match wanted:
        case tuple():
            if value not in wanted:
                raise UsageError(f"{where}: {value!r} is none of {', '.join(wanted)}")
        case _ if wanted is bool:
            if not isinstance(value, bool):
                raise UsageError(f"{where}: write true or false")
        case _ if not isinstance(value, str):
            raise UsageError(f'{where}: write text in quotes, like "{value}"')
    return str(directory / value) if wanted is Path else value
