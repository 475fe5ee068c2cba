"""The image of Containerfile, built and run by a Docker Engine of the test's own (Debian's docker.io).

Where no registry of images is reached, the base is made by debootstrap under the name that Containerfile has.
For arm64 it always is: there, programs run in qemu's emulation.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from system_packages import Missing, apt, program
from waiting import wait_for

Done = subprocess.CompletedProcess[str]
pytestmark = [pytest.mark.long, pytest.mark.skipif(os.geteuid() != 0, reason="a Docker Engine needs root")]

ROOT = Path(__file__).parents[2]
BASE, RELEASE = "debian:bookworm-slim", "bookworm"
BUILD_S, RUN_S = 3600, 600
# Debian's own client is preferred: it builds with BuildKit where there is no buildx.
DOCKER = shutil.which("docker", path=f"/usr/bin:{os.environ['PATH']}") or "docker"
BINFMT = Path("/proc/sys/fs/binfmt_misc")
# The header of a program for arm64, and which of its bits count; F: opened once, so found in any container.
ARM64 = (
    r":{name}:M::\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00"
    r":\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff:{emulator}:OCF"
)
REGISTRY = "version: 0.1\nstorage: {{filesystem: {{rootdirectory: {folder}}}}}\nhttp: {{addr: {address}}}\n"
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
        command = [DOCKER, "--host", self._host, *arguments]
        return subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=seconds, **options
        )


@pytest.fixture(scope="module")
def docker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """An engine that has the image `kaput`."""
    for name, package in (("dockerd", "docker.io"), ("debootstrap", "debootstrap")):
        if shutil.which(name) is None and (why := apt(package)):
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
            import_base(engine, folder, BASE)
        build(engine, "kaput")
        yield engine
    finally:
        daemon.terminate()
        daemon.wait(120)
        # Docker leaves it mounted, so that pytest could never delete this directory.
        subprocess.run(
            ["umount", folder / "exec-root" / "netns" / "default"], check=False, capture_output=True
        )


def build(engine: Engine, name: str, *options: str) -> None:
    """The image of Containerfile, under this name."""
    command = ["build", "--network=host", "--file", "Containerfile", "--tag", name, *options, "."]
    with_buildkit = {**os.environ, "DOCKER_BUILDKIT": "1"} if options else None
    built = engine(*command, seconds=BUILD_S, cwd=ROOT, env=with_buildkit)
    assert built.returncode == 0, built.stdout[-3000:] + built.stderr[-3000:]


def import_base(engine: Engine, folder: Path, name: str, architecture: str = "amd64") -> None:
    """The base from Debian's packages; it trusts the certificates that this machine trusts."""
    tree = folder / "base"
    only = ["--variant=minbase", "--include=ca-certificates", f"--arch={architecture}"]
    subprocess.run(["debootstrap", *only, RELEASE, tree], check=True, capture_output=True, timeout=BUILD_S)
    for certificate in Path("/usr/local/share/ca-certificates").glob("*.crt"):
        shutil.copy(certificate, tree / "usr/local/share/ca-certificates")
    subprocess.run(
        ["chroot", tree, "update-ca-certificates"], check=True, capture_output=True, timeout=BUILD_S
    )
    (tree / "etc" / "pip.conf").write_text(f"[global]\ncert = {CERTIFICATES}\n")
    with subprocess.Popen(["tar", "-C", tree, "-c", "."], stdout=subprocess.PIPE) as packed:
        platform = f"--platform=linux/{architecture}"
        imported = engine("import", platform, "-", name, seconds=BUILD_S, stdin=packed.stdout)
    assert imported.returncode == 0, imported.stderr
    shutil.rmtree(tree)


@contextmanager
def arm64_emulated() -> Iterator[None]:
    """The kernel runs programs for arm64 with qemu, unless it did already. Raises Missing."""
    emulator, name = program("qemu-aarch64-static", "qemu-user-static"), f"kaput-{os.getpid()}"
    with ExitStack() as undo:
        if not (BINFMT / "register").exists():
            subprocess.run(["mount", "-t", "binfmt_misc", "binfmt_misc", BINFMT], check=True)
            undo.callback(subprocess.run, ["umount", BINFMT], check=True)
        handlers = [each.read_text() for each in BINFMT.iterdir() if each.name != "register"]
        if not any("qemu-aarch64" in each for each in handlers):
            (BINFMT / "register").write_text(ARM64.format(name=name, emulator=emulator))
            undo.callback((BINFMT / name).write_text, "-1")
        yield


@contextmanager
def registry(folder: Path) -> Iterator[str]:
    """The address of a registry of images: BuildKit asks one for each base of another architecture."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    (folder / "registry.yml").write_text(REGISTRY.format(folder=folder / "images", address=address))
    serve = [program("docker-registry", "docker-registry"), "serve", folder / "registry.yml"]
    with (folder / "registry.log").open("w") as log:
        server = subprocess.Popen(serve, stdout=log, stderr=log)
    try:
        wait_for(lambda: "listening on" in (folder / "registry.log").read_text(), "a registry", 60)
        yield address
    finally:
        server.terminate()
        server.wait(60)


def test_the_image_is_built_for_arm64(docker: Engine, tmp_path: Path) -> None:
    """All of it, in emulation: Debian's packages, the locked ones of Python, Kafka's jars."""
    with ExitStack() as until_the_end:
        try:
            until_the_end.enter_context(arm64_emulated())
            base = f"{until_the_end.enter_context(registry(tmp_path))}/{BASE}"
        except Missing as why:
            pytest.skip(str(why))
        import_base(docker, tmp_path, base, "arm64")
        pushed = docker("push", base)
        assert pushed.returncode == 0, pushed.stderr
        build(docker, "kaput:arm64", "--platform=linux/arm64", f"--build-arg=BASE={base}")
        done = docker("run", "--rm", "--platform=linux/arm64", "kaput:arm64", "version")
    assert done.returncode == 0, done.stderr
    assert "machine: aarch64" in done.stdout and "java: 17." in done.stdout


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
