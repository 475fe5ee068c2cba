"""Whether network namespaces can be had: what is missing is reported in one sentence, with its remedy."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from kaput.cluster.network.capability_checks import ALWAYS, FAILED, NEEDS
from kaput.cluster.network.reexec import TOOLS, namespace_command
from kaput.errors import LabError, NamespacesError
from kaput.processes import mounts


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory that is all of the PATH, with tools that do nothing."""
    for name in TOOLS:
        script(tmp_path / name, "exit 0")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(mounts, "SYSTEM_DIRECTORIES", ())
    monkeypatch.setattr(sys, "platform", "linux")
    return tmp_path


def script(path: Path, body: str) -> None:
    """A tool of the test's own."""
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)


def said(kind: type[LabError] = NamespacesError) -> str:
    with pytest.raises(LabError) as caught:
        namespace_command()
    assert caught.type is kind and caught.value.exit_status == 4
    text = str(caught.value)
    assert "\n" not in text
    return text


def test_namespaces_require_linux(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only Linux has network namespaces."""
    monkeypatch.setattr(sys, "platform", "darwin")
    assert "need Linux" in said() and "loopback" in said()


@pytest.mark.parametrize("absent", TOOLS)
def test_missing_tool_error_names_its_package(machine: Path, absent: str) -> None:
    """The line to type is in the sentence; it is not the kernel's fault."""
    (machine / absent).unlink()
    assert f"need {absent} of util-linux" in said(LabError)
    assert "apt-get install util-linux " in said(LabError) and "dnf install" in said(LabError)


def test_chroot_is_reported(machine: Path) -> None:
    """Rights would not help there."""
    script(
        machine / "unshare",
        "echo unshare: cannot change root filesystem propagation: Invalid argument; exit 1",
    )
    assert "as in a chroot" in said() and "CAP_SYS_ADMIN" not in said()


def test_preflight_needs_only_unshare_and_nsenter(machine: Path) -> None:
    """No ip, tc, nft, ss: unshare and nsenter are all, and a way in is found."""
    assert sorted(path.name for path in machine.iterdir()) == ["nsenter", "unshare"]
    assert namespace_command(NEEDS)[0] == str(machine / "unshare")


def test_missing_permission_error_names_the_remedy(machine: Path) -> None:
    """What unshare itself said is there as well."""
    script(machine / "unshare", "echo 'unshare failed: Operation not permitted' >&2; exit 1")
    text = said()
    assert "cannot create network namespaces (unshare failed: Operation not permitted)" in text
    assert "CAP_SYS_ADMIN" in text or "run kaput as root" in text


@pytest.mark.parametrize("name", [name for name in ALWAYS if name != "lo"])
def test_missing_kernel_feature_is_named(machine: Path, name: str) -> None:
    """The trial that failed decides, with the kernel's own words."""
    complaint = f"echo @lo; echo @{name}; echo 'Unknown device type' >&2; exit {FAILED}"
    script(machine / "unshare", complaint)
    text = said()
    assert ALWAYS[name].missing in text and "Unknown device type" in text


def test_kernel_features_of_the_faults_are_checked(machine: Path) -> None:
    """A kernel without the token bucket can still do everything but that."""
    lacking = f"case \"$*\" in *tbf*) echo @tbf; echo 'qdisc kind is unknown'; exit {FAILED};; esac"
    script(machine / "unshare", lacking)
    assert namespace_command(["reject"])
    with pytest.raises(NamespacesError, match=r"token bucket.*qdisc kind is unknown"):
        namespace_command(["tbf"])


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("echo @lo; echo 'Traceback'; echo 'KeyError: 7'; exit 1", "exit 1): KeyError: 7"),
        (
            "echo 'unshare: failed to execute python: Permission denied'; exit 126",
            "exit 126): unshare: failed",
        ),
    ],
)
def test_crashed_check_is_a_lab_error(machine: Path, body: str, told: str) -> None:
    """It is trouble of the lab's, which no test of the network may be skipped for."""
    script(machine / "unshare", body)
    assert told in said(LabError)
