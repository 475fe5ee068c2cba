"""Workers share the tests (`make test`): of those without brokers, one judges with Spark, in one session.

Tests of brokers run at the same time, a file at a time in each worker; those marked `alone`, in which a fault
that is late on a busy machine finds nothing to lose, one by one before the rest of them. The others have low
priority then: they take what CPU time is left (LOW_PRIORITY).
"""

from __future__ import annotations

import os
from collections import Counter
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer.testing
from hypothesis import settings
from xdist.scheduler import LoadScopeScheduling

# Read when Polars is loaded, which is later. On a few rows more threads cost more than they do, and Spark's
# workers have one as well.
os.environ.setdefault("POLARS_MAX_THREADS", "1")

pytest_plugins = ["cpu_seconds"]
# The tree of commands is built once in each worker, and not for each call of a CliRunner, which takes 0.1 s.
typer.testing._get_command = cache(typer.testing._get_command)
# Nothing is timed here: a busy machine must not fail a test.
settings.register_profile("kaput", deadline=None)
settings.load_profile("kaput")

# By directory: the tests that share a session, in one worker.
_TOGETHER = {"spark": "spark", "property": "spark", "browser": "browser"}
# Those there that judge without a JVM: each in whichever worker is free.
_PLAYED = (
    *("spark/test_causes.py::test_a_loss", "spark/test_doubts.py", "spark/test_split_brain.py"),
    *(
        f"property/test_ledger.py::test_{name}"
        for name in ("findings_do_not", "mirror_findings_do_not", "share_groups_with", "single_disagreement")
    ),
)
# Those there that judge by the command, each with a Spark of its own: by file, in whichever worker is free.
_COMMANDS = ("analyze_while_recording", "background", "judging_unwritable", "standalone")
# Tests of brokers that share nothing with their file: each in whichever worker is free.
_APART = tuple(
    f"test_{name}.py"
    for name in ("runs_with_stores", "network_runs", "no_orphans", "scenarios", "error_reporting")
)
# Files of tests with brokers that take longest: begun first, so that no worker is alone with one at the end.
_FIRST = tuple(
    f"test_{name}.py"
    for name in (
        *(
            "watch",
            "trials",
            "cluster_lifecycle",
            "compare",
            "reassign",
            "broker_outage_report",
            "command_client_examples",
            "runs_with_stores",
        ),
        *(
            "network_runs",
            "keep",
            "zookeeper_cluster",
            "scenarios",
            "lab",
            "lab_loss_accounting",
            "no_orphans",
        ),
    )
)
# Those of tests/unit that start many processes or draw many cases: marked `slow`.
_SLOW = (
    *(
        "sidecar",
        "metrics_command",
        "command_clients",
        "supervisor",
        "damage",
        "dashboard_command",
        "exit_status",
        "export",
    ),
    *("java_clients", "nemesis", "orphans", "ownership", "page", "pipe_member", "rebalances", "recording"),
    *(
        "generated_traffic",
        "resized",
        "member_slot",
        "sequence_command",
        "share_groups",
        "still_recording",
        "transactions",
        "watching",
    ),
)
_SLOW_FILES = {f"test_{name}.py" for name in _SLOW}


def pytest_configure(config: pytest.Config) -> None:
    """Two files of one name would be one module to pytest, which says so only when it meets the second."""
    if os.environ.get("LOW_PRIORITY") and hasattr(config, "workerinput"):
        _lower_priority()
    names = Counter(path.name for path in Path(__file__).parent.rglob("test_*.py"))
    if twice := sorted(name for name, times in names.items() if times > 1):
        raise pytest.UsageError(f"more than one file in tests/ is called {', '.join(twice)}")
    if gone := sorted((_SLOW_FILES | {*_FIRST}) - names.keys()):
        raise pytest.UsageError(f"tests/conftest.py names files that are not there: {', '.join(gone)}")


def _lower_priority() -> None:
    """This worker gets a core if no other session wants it, where the kernel groups processes by session."""
    with suppress(OSError):
        os.setsid()
        Path("/proc/self/autogroup").write_text("6")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks what is slow, and puts first what takes longest."""
    for item in items:
        if item.path.name in _SLOW_FILES:
            item.add_marker("slow")
    rank = {name: number for number, name in enumerate(_FIRST)}
    items.sort(key=lambda item: rank.get(item.path.name, len(_FIRST)))


# Files whose tests share a cluster with those of another file.
_SHARING = {
    f"functional/cluster/test_{name}.py": "functional/cluster/test_admin.py"
    for name in ("drain", "java_producer", "system_faults")
}


class ByDirectory(LoadScopeScheduling):
    """What has a word in _TOGETHER stays together, tests of brokers by file; every other is on its own."""

    def _split_scope(self, nodeid: str) -> str:
        directory = nodeid.removeprefix("tests/").partition("/")[0]
        file = nodeid.partition("::")[0]
        if file.endswith(_APART) or nodeid.removeprefix("tests/").startswith(_PLAYED):
            return nodeid
        for one, other in _SHARING.items():
            file = file.replace(one, other)
        if directory == "functional" or file.endswith(tuple(f"test_{name}.py" for name in _COMMANDS)):
            return file
        return _TOGETHER.get(directory, nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByDirectory:
    """pytest-xdist's own groups (`--dist loadgroup`) are not seen under the pytest that is locked."""
    config.option.loadscopereorder = False  # it would begin with the files that have most tests
    return ByDirectory(config, log)
