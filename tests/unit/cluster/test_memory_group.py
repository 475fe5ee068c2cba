"""Memory cgroups of both versions, on files as the kernel shows them."""

from __future__ import annotations

from pathlib import Path

import pytest

from kaput.cluster import memory_group
from kaput.cluster.memory_group import MemoryGroup
from kaput.errors import LabError
from kaput.processes.ownership import Owner

MIB = 1 << 20
STAT = f"anon {60 * MIB}\nactive_file {10 * MIB}\ninactive_file {20 * MIB}\npgmajfault 7\n"
FILES = {
    1: {"memory.usage_in_bytes": f"{100 * MIB}\n", "memory.failcnt": "3\n"},
    2: {"memory.current": f"{100 * MIB}\n", "memory.events": "low 0\nhigh 3\nmax 0\n"},
}
LIMITS = {1: ("memory.limit_in_bytes", "-1"), 2: ("memory.high", "max")}


@pytest.mark.parametrize("version", FILES)
def test_memory_usage_and_limit_of_cgroup_v1_and_v2(tmp_path: Path, version: int) -> None:
    """In bytes, rounded up to whole pages; a process of version 1 waits instead of being killed."""
    for name, text in {**FILES[version], "memory.stat": STAT}.items():
        (tmp_path / name).write_text(text)
    group = MemoryGroup(tmp_path, version)
    assert (group.usage(), group.held()) == (100 * MIB, 70 * MIB)
    assert (group.times_reached(), group.major_faults()) == (3, 7)
    name, lifted = LIMITS[version]
    assert group.limit(80 * MIB - 1) == 100 * MIB and (tmp_path / name).read_text() == f"{80 * MIB}"
    assert (tmp_path / "memory.oom_control").exists() == (version == 1)
    # Of version 1 the kernel shows a large number where -1 was written, which a file does not.
    assert group.lift() == (version == 2) and (tmp_path / name).read_text() == lifted
    (tmp_path / name).unlink()
    (tmp_path / name).mkdir()
    with pytest.raises(LabError, match=f"{name} cannot be set to"):
        group.limit(MIB)


@pytest.mark.parametrize(
    ("mounts", "why"),
    [
        ("tmpfs /tmp tmpfs rw 0 0", "no cgroup file system here has the memory controller"),
        ("cgroup {0} cgroup rw,cpu 0 0\ncgroup2 {0} cgroup2 rw 0 0", "no cgroup file system here"),
        ("cgroup {0}/nowhere cgroup rw,memory 0 0", "No such file or directory"),
    ],
)
def test_unavailable_cgroup_error_has_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mounts: str, why: str
) -> None:
    (tmp_path / "cgroup.controllers").write_text("cpu io")
    (tmp_path / "mounts").write_text(mounts.format(tmp_path))
    monkeypatch.setattr(memory_group, "MOUNTS", tmp_path / "mounts")
    with Owner() as owner, pytest.raises(LabError, match="memory-groups needs root") as refused:
        MemoryGroup.create(owner)
    assert why in str(refused.value)


def test_cgroup_v2_is_created_with_the_memory_controller_and_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cgroup.controllers").write_text("cpu memory")
    (tmp_path / "cgroup.subtree_control").write_text("")
    (tmp_path / "mounts").write_text(f"cgroup2 {tmp_path} cgroup2 rw 0 0\n")
    monkeypatch.setattr(memory_group, "MOUNTS", tmp_path / "mounts")
    with Owner() as owner:
        group = MemoryGroup.create(owner)
        assert group.path.parent == tmp_path and group.path.is_dir()
        assert (tmp_path / "cgroup.subtree_control").read_text() == "+memory"
        assert group.entering(["java"])[-2:] == [str(group.path), "java"]
    assert not group.path.exists()
