"""The packages that are published: built twice, installed where nothing is, and used."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RECORDED = ROOT / "tests" / "recorded" / "consumer-failover"
sys.path.insert(0, str(ROOT / "scripts"))
import release  # noqa: E402
from distributions import build  # noqa: E402

from system_packages import Missing, program, system_of  # noqa: E402

pytestmark = pytest.mark.long

LAB_MB_MAX = 150
OF_THE_LAB_ALONE = """
import kaput, pytest
from kaput.keep import Producer, SQLite

def test_a_leader_is_killed(kafka_lab):
    kafka_lab.create_topic("orders", replication_factor=3)
    with kafka_lab.fault("kill", "leader-of orders/0") as fault:
        assert "SIGKILL" in fault.proof
    with pytest.raises(kaput.UsageError, match="needs the package kaput: pip install kaput"):
        kafka_lab.produce("orders", count=10)
"""

IMPORT_ALL = """
import importlib, pkgutil, kaput
names = [each.name for each in pkgutil.walk_packages(kaput.__path__, "kaput.")]
print(len([importlib.import_module(name) for name in names if name != "kaput.__main__"]))
"""


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """sdists and wheels of both."""
    return build(tmp_path_factory.mktemp("packages"))


@pytest.fixture(scope="module")
def installed(packages: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Makes an environment with these packages, and returns its programs."""
    wheels = {path.name.partition("-")[0]: str(path) for path in packages if path.suffix == ".whl"}

    def install(*names: str) -> Path:
        folder = tmp_path_factory.mktemp("venv")
        release.uv("venv", "--python", sys.executable, str(folder))
        given = [wheels.get(name, name) for name in names]
        release.uv("pip", "install", "--compile-bytecode", "--python", str(folder / "bin" / "python"), *given)
        return folder / "bin"

    return install


def run(
    *command: str | Path, cwd: Path, seconds: float = 300, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Without this checkout on any path, and with these variables."""
    env = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "VIRTUAL_ENV")}
    env |= variables
    return subprocess.run(
        command, cwd=cwd, env=env, capture_output=True, text=True, check=False, timeout=seconds
    )


def test_two_builds_are_the_same_bytes(packages: list[Path], tmp_path: Path) -> None:
    """Sdists and wheels."""
    assert len(packages) == 4
    assert release.differences(packages, build(tmp_path)) == []


def test_kaput_lab_alone_breaks_brokers_and_names_what_it_lacks(
    installed: Callable[..., Path], tmp_path: Path
) -> None:
    """At most 150 MB; a fault with its proof by the pytest plugin; one sentence for the rest."""
    programs = installed("kaput_lab")
    size = sum(path.stat().st_size for path in programs.parent.rglob("*") if path.is_file()) / 1e6
    assert size <= LAB_MB_MAX
    page = run(programs / "kaput", "docs", "faults", cwd=tmp_path).stdout.strip()
    assert "<title>Faults - kaput</title>" in Path(page).read_text(encoding="utf-8")
    for verb in ("analyze", "run", "report"):
        done = run(programs / "kaput", verb, str(RECORDED) if verb != "run" else "noop", cwd=tmp_path)
        assert (done.returncode, done.stdout) == (2, "")
        assert f"kaput {verb} needs the package kaput: pip install kaput" in done.stderr
    release.uv("pip", "install", "--python", str(programs / "python"), "pytest")
    every = run(programs / "python", "-c", IMPORT_ALL, cwd=tmp_path)
    assert every.returncode == 0 and int(every.stdout) > 200, every.stderr
    (tmp_path / "test_mine.py").write_text(OF_THE_LAB_ALONE)
    done = run(programs / "python", "-m", "pytest", "-q", "test_mine.py", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("pyspark", ["pyspark==4.0.0", "pyspark"])
def test_kaput_judges_with_both_ends_of_pyspark(
    installed: Callable[..., Path], tmp_path: Path, pyspark: str
) -> None:
    """The oldest and the newest one give the findings that a checkout gives; so does a Spark of one's own."""
    programs = installed("kaput_lab", "kaput", pyspark)
    (home,) = (programs.parent / "lib").glob("python3*/site-packages/pyspark")
    checkout = Path(sys.executable).parent
    ways = {
        "packages": (programs, {}),
        "own": (programs, {"SPARK_HOME": str(home)}),
        "checkout": (checkout, {}),
    }
    found = []
    for name, (where, variables) in ways.items():
        folder = tmp_path / name / "run"
        shutil.copytree(RECORDED, folder)
        done = run(
            where / "kaput",
            "analyze",
            "run",
            "--json",
            "--master",
            "local[*]",
            cwd=folder.parent,
            **variables,
        )
        assert done.returncode == 0, done.stderr
        found.append(json.loads(done.stdout))
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("system", ["aarch64-manylinux_2_28", "aarch64-apple-darwin"])
def test_every_locked_package_can_be_installed_on_arm64(system: str, tmp_path: Path) -> None:
    """There is a wheel for each; PySpark is pure Python, and has an sdist only."""
    wheels = ["--only-binary", ":all:", "--no-binary", "pyspark", "--require-hashes"]
    where = ["--python-platform", system, "--target", str(tmp_path)]
    planned = release.uv("pip", "install", "--dry-run", *where, *wheels, "--requirement", "requirements.lock")
    assert planned == ""  # quiet: it raises where anything is missing


def test_kaput_judges_on_arm64_as_here(packages: list[Path], tmp_path: Path) -> None:
    """In qemu's emulation, with Debian's Python for that processor: the same findings, from the wheels."""
    try:
        emulator = program("qemu-aarch64-static", "qemu-user-static")
        tree = system_of("arm64", ["python3", "libstdc++6"], tmp_path / "debian")
    except Missing as why:
        pytest.skip(str(why))
    (python,) = (tree / "usr" / "bin").glob("python3.*")
    version = python.name.removeprefix("python")
    wheels = [str(path) for path in packages if path.suffix == ".whl"]
    where = ["--python-platform", "aarch64-manylinux_2_28", "--python-version", version]
    release.uv("pip", "install", "--python", sys.executable, *where, "--target", str(tree / "kaput"), *wheels)
    emulated = [
        emulator, "-L", str(tree), "-E", f"PYTHONHOME={tree / 'usr'}", "-E", f"PYTHONPATH={tree / 'kaput'}",
        python, "-m", "kaput",
    ]  # fmt: skip
    found = []
    for name, command in {"arm64": emulated, "here": [Path(sys.executable).with_name("kaput")]}.items():
        shutil.copytree(RECORDED, tmp_path / name / "run")
        done = run(*command, "analyze", "run", "--json", cwd=tmp_path / name, seconds=1800)
        assert done.returncode == 0, done.stderr
        found.append(json.loads(done.stdout))
    assert found[0] == found[1]


def test_the_sbom_has_a_license_for_everything(packages: list[Path]) -> None:
    """CycloneDX, checked by its own tool while it is written; with the jars in kaput-lab."""
    document = release.sbom(packages)
    assert document["bomFormat"] == "CycloneDX"
    components = {each["name"]: each for each in document["components"]}
    assert {"kaput", "kaput-lab", "pyspark", "ivy", "commons-cli"} <= set(components)
    assert [name for name, each in components.items() if not each.get("licenses")] == []
