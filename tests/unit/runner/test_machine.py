"""More brokers than the machine has memory for are named before they are started."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kaput.errors import LabError
from kaput.runner import machine
from kaput.runner.machine import NODE_MB, Memory, check_memory, cores, of_this_machine, shortage
from kaput.scenario.loader import find, load_builtin, mistakes_of


def test_nodes_are_counted_with_those_that_steps_add() -> None:
    """Of every cluster: brokers, controllers; what is enough is not mentioned."""
    noop = load_builtin("noop", ["cluster.brokers=10", "cluster.controllers=2"])
    growing = load_builtin("noop", ["cluster.brokers=3", "cluster.controllers=1"])
    grow = "faults=[{at: 1s, fault: grow, target: cluster, brokers: 3}]"
    assert shortage(noop, Memory(99_999, 12 * NODE_MB)) is None
    assert (
        shortage(load_builtin("noop", ["cluster.brokers=3", grow]), Memory(99_999, 5 * NODE_MB)) is not None
    )
    assert shortage(growing, Memory(99_999, 4 * NODE_MB)) is None
    several = load_builtin("mirror", [])
    found = shortage(several, Memory(100, 100))
    assert (
        found is not None and found[1] and found[0].endswith("this machine has 100 MiB; write fewer brokers")
    )


def test_little_free_memory_is_a_warning() -> None:
    found = shortage(load_builtin("noop", ["cluster.brokers=80"]), Memory(99_999, 4_000))
    assert found is not None and not found[1]
    assert f"need about {80 * NODE_MB:,} MiB ({NODE_MB} MiB each), and this machine has 4,000 MiB" in found[0]


def test_run_that_all_memory_could_not_carry_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is this machine's trouble, not a mistake in the file."""
    scenario = load_builtin("noop", ["cluster.brokers=80"])
    monkeypatch.setattr(machine, "of_this_machine", lambda: Memory(4_000, 3_000))
    with pytest.raises(LabError, match="80 nodes need about"):
        check_memory([("many", scenario)])
    monkeypatch.setattr(machine, "of_this_machine", lambda: Memory(99_999, 3_000))
    (warning,) = check_memory([("many", scenario)])
    assert warning.startswith("many: 80 nodes need") and "3,000 MiB free" in warning


def test_warning_about_repeated_runs_is_given_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if what is free changes meanwhile; that of another scenario is another one."""
    free = iter(range(3_000, 4_000))
    monkeypatch.setattr(machine, "of_this_machine", lambda: Memory(99_999, next(free)))
    one, other = (load_builtin("noop", [f"cluster.brokers={count}"]) for count in (80, 81))
    warnings = check_memory([*[("matrix", one)] * 10, ("matrix", other), ("few", load_builtin("noop", []))])
    assert [warning.partition(" need")[0] for warning in warnings] == ["matrix: 80 nodes", "matrix: 81 nodes"]


def test_limit_of_a_container_counts(tmp_path: Path) -> None:
    limit = tmp_path / "memory.max"
    limit.write_text("max\n")
    every = of_this_machine(tmp_path)
    limit.write_text(str(64 << 20))
    assert of_this_machine(tmp_path) == (64, 64) and every.total_mb > 64


@pytest.mark.parametrize(
    ("limit", "current", "cached"),
    [
        ("memory.max", "memory.current", "inactive_file"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes", "total_inactive_file"),
    ],
)
def test_what_a_container_uses_is_not_free(limit: str, current: str, cached: str, tmp_path: Path) -> None:
    """Its cache of files is; of version 2 of cgroups, and of version 1."""
    (tmp_path / "memory").mkdir()
    stat = (tmp_path / current).with_name("memory.stat")
    stat.write_text(f"anon 5\n{cached} {8 << 20}\n")
    (tmp_path / limit).write_text(str(64 << 20))
    (tmp_path / current).write_text(str(40 << 20))
    assert of_this_machine(tmp_path) == (64, 32)
    (tmp_path / current).write_text(f"{80 << 20}\n")
    assert of_this_machine(tmp_path) == (64, 0)


@pytest.mark.parametrize(
    ("files", "number"),
    [
        ({}, 8),
        ({"cpu.max": "max 100000"}, 8),
        ({"cpu.max": "250000 100000"}, 2),
        ({"cpu.max": "50000 100000"}, 1),
        ({"cpu/cpu.cfs_quota_us": "300000", "cpu/cpu.cfs_period_us": "100000"}, 3),
        ({"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, 8),
    ],
)
def test_cores_are_those_that_kaput_may_use(
    files: dict[str, str], number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 64, eight by its affinity, and fewer by a quota of its container, of either version of cgroups."""
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)
    (tmp_path / "cpu").mkdir()
    for name, text in files.items():
        (tmp_path / name).write_text(f"{text}\n")
    assert cores(tmp_path) == number


def test_ids_of_brokers_end_where_those_of_controllers_begin() -> None:
    """101 brokers would have a controller among them, or be one."""
    _, source = find("noop")
    assert not mistakes_of(source, ["cluster.brokers=100"])
    (mistake,) = mistakes_of(source, ["cluster.brokers=101"])
    assert mistake.text == "ids from 101 on are those of controllers; write 100 or fewer"
