"""Faults on disks: what they need, and that they hit nothing but the disks of brokers."""

from __future__ import annotations

import pytest

from kaput.scenario.loader import find, mistakes_of


def _mistakes(*changes: str) -> list[str]:
    _, source = find("leader-disk-stall-acks-all")
    return [mistake.text for mistake in mistakes_of(source, changes)]


@pytest.mark.parametrize("fault", ["disk-full", "disk-stall", "disk-error"])
def test_disk_faults_target_brokers_only(fault: str) -> None:
    """A dedicated controller writes to the disk that everything else is on: that is not to be filled."""
    here = f"faults.0.fault={fault}"
    assert _mistakes(here) == []
    assert _mistakes(here, "faults.0.target=controller", "cluster.controllers=combined") == []
    (mistake,) = _mistakes(here, "faults.0.target=controller")
    assert mistake == f"{fault} hits brokers: a controller has no disk of its own"


@pytest.mark.parametrize("fault", ["disk-stall", "disk-error"])
def test_disk_faults_require_a_sized_ext4_disk(fault: str) -> None:
    (mistake,) = _mistakes(f"faults.0.fault={fault}", "cluster.disk-fs=tmpfs")
    assert mistake == f"{fault} needs a disk that can fail; write cluster.disk-mb: 256, disk-fs: ext4"
    assert "disk-fs needs disk-mb, the size of the file systems" in _mistakes("cluster.disk-mb=null")
