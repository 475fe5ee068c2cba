"""Whether network namespaces can be had: what is missing is said in one sentence, with its remedy."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from kaput.cluster.network import tools
from kaput.cluster.network.preflight import ALWAYS, NEEDS, way_in
from kaput.errors import LabError

TOOLS = ("ip", "tc", "ss", "nft", "unshare", "nsenter")


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory that is all of the PATH, with tools that do nothing; the shell is the real one."""
    for name in (*TOOLS, "mount", "umount"):
        script(tmp_path / name, "exit 0")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(tools, "SYSTEM_DIRECTORIES", ())
    monkeypatch.setattr(sys, "platform", "linux")
    return tmp_path


def script(path: Path, body: str) -> None:
    """A tool of the test's own."""
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)


def said() -> str:
    """The one sentence."""
    with pytest.raises(LabError) as caught:
        way_in()
    assert caught.value.exit_status == 4
    text = str(caught.value)
    assert "\n" not in text
    return text


def test_another_system_is_told_so(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only Linux has network namespaces."""
    monkeypatch.setattr(sys, "platform", "darwin")
    assert "need Linux" in said() and "loopback" in said()


@pytest.mark.parametrize(
    ("absent", "package"), [("nft", "nftables"), ("ip", "iproute2"), ("unshare", "util-linux")]
)
def test_a_missing_tool_is_named_with_its_package(machine: Path, absent: str, package: str) -> None:
    """The line to type is in the sentence."""
    (machine / absent).unlink()
    assert f"need {absent}, which is not installed" in said()
    assert f"apt-get install {package} " in said() and "dnf install" in said()


def test_several_missing_tools_are_one_sentence(machine: Path) -> None:
    """ip and tc are one package."""
    for name in ("ip", "tc", "ss", "nft"):
        (machine / name).unlink()
    assert "need ip, tc, ss, nft, which are not installed" in said()
    assert "apt-get install iproute2 nftables " in said()
    assert "dnf install iproute iproute-tc nftables " in said()


def test_no_permission_is_told_with_what_would_give_it(machine: Path) -> None:
    """What unshare itself said is there as well."""
    script(machine / "unshare", "echo 'unshare failed: Operation not permitted' >&2; exit 1")
    text = said()
    assert "cannot be made (unshare failed: Operation not permitted)" in text
    assert "CAP_SYS_ADMIN" in text or "run kaput as root" in text


@pytest.mark.parametrize("name", [name for name in ALWAYS if name != "lo"])
def test_a_kernel_without_a_part_of_it_is_told_which(machine: Path, name: str) -> None:
    """The trial that failed decides, with the tool's own words."""
    script(machine / "unshare", f"echo @lo; echo @{name}; echo 'Unknown device type' >&2; exit 1")
    text = said()
    assert ALWAYS[name].missing in text and "Unknown device type" in text


def test_the_trial_is_made_with_the_tools_that_were_found(machine: Path) -> None:
    """unshare runs a shell, the shell runs the trials: all pass here, so the way in is unshare's."""
    script(
        machine / "unshare",
        'while [ "$1" != sh ]; do [ "$1" != true ] || exit 0; shift; done; exec /bin/sh -s',
    )
    assert way_in(set(NEEDS) - {"destroy"})[0] == str(machine / "unshare")


def test_what_a_fault_needs_is_tried_as_well(machine: Path) -> None:
    """A kernel without the token bucket can still do everything but that."""
    script(
        machine / "unshare",
        'while [ "$1" != sh ]; do [ "$1" != true ] || exit 0; shift; done; exec /bin/sh -s',
    )
    script(machine / "tc", "echo 'qdisc kind is unknown' >&2; exit 2")
    assert way_in(["reject"])
    with pytest.raises(LabError, match=r"token bucket.*qdisc kind is unknown"):
        way_in(["tbf"])
