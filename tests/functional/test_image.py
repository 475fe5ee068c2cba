"""The image of Containerfile, built and run by a Docker Engine of the test's own (Debian's docker.io).

Where no registry of images is reached, the base is made by debootstrap under the name that Containerfile has.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from system_packages import apt
from waiting import wait_for

Done = subprocess.CompletedProcess[str]
pytestmark = [pytest.mark.long, pytest.mark.skipif(os.geteuid() != 0, reason="a Docker Engine needs root")]

ROOT = Path(__file__).parents[2]
BASE, RELEASE = "debian:bookworm-slim", "bookworm"
BUILD_S, RUN_S = 3600, 600
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
USER_NAMESPACES = ("--security-opt", "seccomp=unconfined")
ISOLATED = """
version: 1
title: A leader is cut off
cluster: {brokers: 3, controllers: 1, network: namespaces}
topics: [{name: orders, replication-factor: 3, config: {min.insync.replicas: 2}}]
workload: {producers: [{topic: orders, acks: all, messages: 10000, rate: 500}]}
faults: [{at: 5s, fault: isolate, target: leader-of orders/0, for: 5s}]
expect: {verdict: held, lost: 0}
"""


class Engine:
    """A Docker Engine with its own socket and data."""

    def __init__(self, folder: Path) -> None:
        self._host = f"unix://{folder / 'docker.sock'}"

    def __call__(
        self, *arguments: str, seconds: float = RUN_S, **options: Any
    ) -> subprocess.CompletedProcess[str]:
        """Runs docker with these arguments."""
        command = ["docker", "--host", self._host, *arguments]
        return subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=seconds, **options
        )


@pytest.fixture(scope="module")
def docker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """An engine that has the image `kaput`."""
    for program, package in (("dockerd", "docker.io"), ("debootstrap", "debootstrap")):
        if shutil.which(program) is None and (why := apt(package)):
            pytest.skip(why)
    folder = tmp_path_factory.mktemp("docker")
    own = [f"--{name}={folder / name}" for name in ("data-root", "exec-root", "pidfile")]
    with (folder / "log").open("w") as log:
        daemon = subprocess.Popen(
            ["dockerd", *own, f"--host=unix://{folder / 'docker.sock'}"], stdout=log, stderr=log
        )
    try:
        engine = Engine(folder)
        wait_for(lambda: daemon.poll() is not None or engine("version").returncode == 0, "dockerd", 120)
        if daemon.poll() is not None:
            pytest.skip(f"no Docker Engine here: {(folder / 'log').read_text()[-300:]}")
        if engine("pull", BASE, seconds=BUILD_S).returncode:
            import_base(engine, folder)
        built = engine(
            "build",
            "--network=host",
            "--file",
            "Containerfile",
            "--tag",
            "kaput",
            ".",
            seconds=BUILD_S,
            cwd=ROOT,
        )
        assert built.returncode == 0, built.stdout[-3000:] + built.stderr[-3000:]
        yield engine
    finally:
        daemon.terminate()
        daemon.wait(120)
        # Docker leaves it mounted, so that pytest could never delete this directory.
        subprocess.run(
            ["umount", folder / "exec-root" / "netns" / "default"], check=False, capture_output=True
        )


def import_base(engine: Engine, folder: Path) -> None:
    """The base from Debian's packages; it trusts the certificates that this machine trusts."""
    tree = folder / "base"
    subprocess.run(
        ["debootstrap", "--variant=minbase", "--include=ca-certificates", RELEASE, tree],
        check=True, capture_output=True, timeout=BUILD_S,
    )  # fmt: skip
    for certificate in Path("/usr/local/share/ca-certificates").glob("*.crt"):
        shutil.copy(certificate, tree / "usr/local/share/ca-certificates")
    subprocess.run(["chroot", tree, "update-ca-certificates"], check=True, capture_output=True, timeout=60)
    (tree / "etc" / "pip.conf").write_text(f"[global]\ncert = {CERTIFICATES}\n")
    with subprocess.Popen(["tar", "-C", tree, "-c", "."], stdout=subprocess.PIPE) as packed:
        imported = engine("import", "-", BASE, seconds=BUILD_S, stdin=packed.stdout)
    assert imported.returncode == 0, imported.stderr
    shutil.rmtree(tree)


def test_the_image_runs_kaput_as_an_ordinary_user(docker: Engine) -> None:
    """Java is in it, and so is everything of kaput."""
    done = docker("run", "--rm", "kaput", "version")
    assert done.returncode == 0, done.stderr
    assert "java: 17." in done.stdout and "run as root: no" in done.stdout and "pyspark: 4." in done.stdout
    assert docker("run", "--rm", "--entrypoint", "id", "kaput", "-un").stdout == "kaput\n"


def test_the_demo_runs_without_network_and_rights(docker: Engine) -> None:
    """Jars are in the image: nothing is fetched."""
    done = docker("run", "--rm", "--network=none", "kaput", "demo")
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert "leader-kill-lagging-acks-1" in done.stdout


def test_network_faults_need_user_namespaces_and_nothing_else(docker: Engine, tmp_path: Path) -> None:
    """Without them: one sentence. With them, no capability is needed. The run folder is the host's."""
    (tmp_path / "isolated.yaml").write_text(ISOLATED)
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs").chmod(0o777)
    tmp_path.chmod(0o755)
    mounted = ["--volume", f"{tmp_path}:/mounted"]
    command = ["kaput", "run", "/mounted/isolated.yaml", "--runs", "/mounted/runs"]
    refused = docker("run", "--rm", *mounted, *command)
    assert refused.returncode == 4
    assert "cannot create network namespaces" in refused.stderr
    done = docker("run", "--rm", *USER_NAMESPACES, *mounted, *command)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert len(list((tmp_path / "runs").glob("*/findings.json"))) == 1
