"""What a shell proposes after TAB: scenarios, run folders, clusters, faults, targets, tools.

Each returns words that begin with what was typed; none at all, and the shell proposes files.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from kaput.cli.settings import read_settings
from kaput.core import DEFAULT_RUNS
from kaput.errors import UsageError


def scenarios(incomplete: str) -> list[str]:
    """Built-in names, and YAML files in this directory."""
    from kaput.scenario.builtin import builtin_names

    files = sorted(str(path) for suffix in ("yaml", "yml") for path in Path().glob(f"*.{suffix}"))
    return _beginning(incomplete, [*builtin_names(), *files])


def run_folders(incomplete: str) -> list[str]:
    """Folders of runs in the directory for them, the last one first."""
    try:
        setting = read_settings().get("runs")
    except UsageError:
        setting = None
    runs = DEFAULT_RUNS if setting is None else Path(setting.value)
    folders = sorted((path.parent for path in runs.glob("*/manifest.json")), reverse=True)
    return _beginning(incomplete, [os.path.relpath(path) for path in folders])


def clusters(incomplete: str) -> list[str]:
    """Running clusters (kaput up)."""
    from kaput.operate.registry import running

    return _beginning(incomplete, [entry.name for entry in running()])


def faults(incomplete: str) -> list[str]:
    from kaput.faults.catalogue import descriptions

    return _beginning(incomplete, [each.fault for each in descriptions()])


def targets(incomplete: str) -> list[str]:
    """Targets, with the numbers of the running clusters' brokers; topics and groups are left to be typed."""
    from kaput.operate.registry import running
    from kaput.scenario.targets import TARGETS

    most = max((len(entry.bootstrap_servers.split(",")) for entry in running()), default=3)
    forms = [form for kind, (form, _) in TARGETS.items() if kind != "broker"]
    words = [f"broker {number}" for number in range(1, most + 1)] + [
        form if form.islower() and ">" not in form else form.partition(" ")[0] + " " for form in forms
    ]
    matching = _beginning(incomplete, words)
    return [each.replace(" ", "\\ ") for each in matching] if _bash_takes_words_as_they_are() else matching


def tools(incomplete: str) -> list[str]:
    from kaput.operate.tools import TOOLS

    return _beginning(incomplete, sorted(TOOLS))


def one_of(*words: str) -> Callable[[str], list[str]]:
    def matching(incomplete: str) -> list[str]:
        return _beginning(incomplete, list(words))

    return matching


def _bash_takes_words_as_they_are() -> bool:
    """bash does, unless the word began with a quote; the other shells quote what they insert."""
    if "bash" not in os.environ.get("_KAPUT_COMPLETE", ""):
        return False
    words, at = os.environ.get("COMP_WORDS", "").split("\n"), int(os.environ.get("COMP_CWORD", "0"))
    return not words[min(at, len(words) - 1)].startswith(("'", '"'))


def _beginning(incomplete: str, words: list[str]) -> list[str]:
    return [word for word in dict.fromkeys(words) if word.startswith(incomplete)]
