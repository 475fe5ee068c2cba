"""Workers share the tests (`make test`): of those without brokers, one judges with Spark, in one session.

Tests of brokers run at the same time, a file at a time in each worker; those marked `alone`, in which a fault
that is late on a busy machine finds nothing to lose, one by one before the rest of them. The others have low
priority then: they take what CPU time is left (LOW_PRIORITY).
"""

from __future__ import annotations

import atexit
import gc
import os
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer.main
import typer.testing
from hypothesis import settings
from xdist.scheduler import LoadScopeScheduling

# Read when Polars is loaded, which is later. On a few rows more threads cost more than they do, and Spark's
# workers have one as well.
os.environ.setdefault("POLARS_MAX_THREADS", "1")
# Workers have it from pytest-xdist, and a table would be as narrow as that: what tests print goes to a pipe.
os.environ.pop("COLUMNS", None)

pytest_plugins = ["cpu_seconds"]
# The tree of commands is built once in each worker, and not for each call, which takes 0.05 s.
typer.main.get_command = typer.testing._get_command = cache(typer.main.get_command)
# Nothing is timed here: a busy machine must not fail a test.
settings.register_profile("kaput", deadline=None)
settings.load_profile("kaput")

# The tests that share what takes long to start or to make, in one worker: a browser, worlds, a Spark session.
# Every other test that judges does so without a JVM, in whichever worker is free.
_TOGETHER = {
    "browser": ("browser/",),
    # Each world is judged once for all of its mutants.
    "accounts": ("second_opinion/test_accounts.py",),
    "mutants": ("second_opinion/test_mutants.py",),
    "measures": ("second_opinion/test_measures.py",),
    "spark": (
        *(f"spark/test_{name}.py" for name in ("any_shape", "dedup_streaming", "hdfs")),
        "spark/test_bench_generate.py::test_spark",
        "spark/test_causes.py::test_every_case",
        "spark/test_row_order.py::test_rows_in_any_order_and_any_files_give_the_same_findings[0-spark]",
        "spark/test_run_folder_urls.py",
        "spark/test_writers.py::test_findings_of_files_written_by_spark",
        "property/test_ledger.py::test_ledger_equal",
    ),
}
# Those that judge by the command, each with a Spark of its own: by file, in whichever worker is free.
_BY_FILE = ("analyze_while_recording.py", "background.py", "judging_unwritable.py", "standalone.py")
# Tests of brokers that share nothing with their file: each in whichever worker is free.
_APART = tuple(
    f"test_{name}.py"
    for name in (
        "runs_with_stores",
        "network_runs",
        "no_orphans",
        "scenarios",
        "error_reporting",
        "many_runs",
    )
)
# Files that take longest, and those that mostly wait for processes: begun first, so that no worker is alone
# with one at the end, and what waits leaves its CPU to what computes.
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
        *("command_clients", "supervisor", "client_moves", "error_messages"),
        *("member_slot", "java_clients", "shared_producers", "orphans", "still_recording"),
    )
)
# Of tests/unit, not among `make test-fast`: those that judge many histories, start many processes, or draw
# many cases. The others take less than 50 s of CPU together.
_SLOW_DIRECTORY = "unit/analysis"
_SLOW = (
    *("alert_builtin_rules", "alert_properties", "alert_rules_never_crash", "alerts_command"),
    *("checking", "client_moves", "command_clients", "compared", "control_room", "damage"),
    *("dashboard_command", "delivery_reports", "exit_status", "export", "false_acks", "forms"),
    *("generated_traffic", "java_classes", "java_clients", "kept_messages_report"),
    *("loader_never_crashes", "matrix_report", "member_slot", "metrics_command", "mirrors_report"),
    *("nemesis", "new_runs", "orphans", "ownership", "page", "payload_bulk", "pipe_member"),
    *("placement", "printable", "python", "quick_commands", "recording", "records_compared", "replays"),
    *("search_draw", "search_space", "searching", "sequence_command", "shared_producers", "sidecar"),
    *("still_recording", "supervisor", "trials_command", "watching", "whole_run"),
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
        if "spark" in getattr(item, "fixturenames", ()) and _shared(item.nodeid) != "spark":
            raise pytest.UsageError(f"{item.nodeid} would start a Spark of its own: see tests/conftest.py")
        if item.path.name in _SLOW_FILES or item.path.parent.match(f"tests/{_SLOW_DIRECTORY}"):
            item.add_marker("slow")
    rank = {name: number for number, name in enumerate(_FIRST)}
    items.sort(key=lambda item: rank.get(item.path.name, len(_FIRST)))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Nothing of what is collected is garbage."""
    gc.disable()
    found = yield
    gc.enable()
    return found


def pytest_collection_finish() -> None:
    """What has been collected stays: the garbage collector need not look at it again and again, nor after
    each few hundred rows of a table. At the end it goes like everything else: libraries in C++ complain about
    what is left.
    """
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
    atexit.register(gc.unfreeze)


def _shared(nodeid: str) -> str | None:
    """What a test shares with others, by the name in _TOGETHER."""
    name = nodeid.removeprefix("tests/")
    return next((what for what, tests in _TOGETHER.items() if name.startswith(tests)), None)


# Files whose tests share a cluster with those of another file.
_SHARING = {
    f"functional/cluster/test_{name}.py": "functional/cluster/test_admin.py"
    for name in ("clients", "segments_against_dump_tool", "steps_by_request", "system_faults")
}


class ByDirectory(LoadScopeScheduling):
    """What is in _TOGETHER stays together, tests of brokers and of tests/unit by file, which share what they
    make; every other is on its own.
    """

    def mark_test_complete(self, node: Any, item_index: int, duration: float = 0) -> None:
        """What is done is dropped: the scheduler counts all that a worker was given after each test."""
        nodeid = self.registered_collections[node][item_index]
        super().mark_test_complete(node, item_index, duration)
        given, scope = self.assigned_work[node], self._split_scope(nodeid)
        if all(given[scope].values()):
            del given[scope]

    def _split_scope(self, nodeid: str) -> str:
        directory = nodeid.removeprefix("tests/").partition("/")[0]
        file = nodeid.partition("::")[0]
        if file.endswith(_APART):
            return nodeid
        for one, other in _SHARING.items():
            file = file.replace(one, other)
        if directory in ("functional", "unit") or file.endswith(_BY_FILE):
            return file
        return _shared(nodeid) or nodeid


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByDirectory:
    """pytest-xdist's own groups (`--dist loadgroup`) are not seen under the pytest that is locked."""
    config.option.loadscopereorder = False  # it would begin with the files that have most tests
    return ByDirectory(config, log)
