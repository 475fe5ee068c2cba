"""The two distributions from this one source tree: kaput-lab, and kaput, which depends on it (make wheel).

    .venv/bin/python scripts/distributions.py dist     sdists and wheels of both

Each is first laid out as a source tree of its own, so that its sdist is complete and builds the same wheel.
Which file is where: [tool.kaput-distributions] in pyproject.toml; no file is in both. In a checkout,
`pip install .` and `make` install everything as one package.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "kaput"
LAB, ALL = "kaput-lab", "kaput"
_TEXTS = ("README.md", "CHANGELOG.md", "LICENSE", "NOTICE")
_ABOUT_LAB = (
    "Kafka brokers that your tests can break: real clusters, faults with proofs, clients. Part of kaput."
)


def pyproject() -> dict[str, Any]:
    """pyproject.toml of this tree."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def files_of(name: str) -> list[Path]:
    """The files of a distribution, relative to the package."""
    rules = pyproject()["tool"]["kaput-distributions"]
    ignored = ("__pycache__", ".mypy_cache")
    paths = [path.relative_to(PACKAGE) for path in PACKAGE.rglob("*") if path.is_file()]
    paths = [path for path in sorted(paths) if not set(ignored) & set(path.parts) and path.suffix != ".pyc"]

    def in_lab(path: Path) -> bool:
        full = any(path.is_relative_to(each) for each in rules["only-in-kaput"])
        return not full or str(path) in rules["also-in-lab"]

    return [path for path in paths if in_lab(path) is (name == LAB)]


def metadata(name: str) -> dict[str, Any]:
    """The [project] table of a distribution."""
    whole = pyproject()
    project, rules = whole["project"], whole["tool"]["kaput-distributions"]
    lab = {each.lower() for each in rules["lab-dependencies"]}
    of_lab = [each for each in project["dependencies"] if re.split(r"[<>=!~\[ ]", each)[0].lower() in lab]
    extras = project["optional-dependencies"]
    shared = {key: project[key] for key in ("version", "readme", "requires-python", "license", "classifiers")}
    shared["license-files"] = ["LICENSE", "NOTICE"]
    if name == LAB:
        renamed = {
            key: [one.replace("kaput[", "kaput-lab[") for one in extras[key]] for key in rules["lab-extras"]
        }
        return {
            "name": LAB, "description": _ABOUT_LAB, **shared, "dependencies": of_lab,
            "optional-dependencies": renamed,
            "scripts": project["scripts"], "entry-points": project["entry-points"],
        }  # fmt: skip
    rest = [each for each in project["dependencies"] if each not in of_lab]
    dependencies = [f"{LAB}=={project['version']}", *rest]
    described = {"name": ALL, "description": project["description"], **shared}
    return {**described, "dependencies": dependencies, "optional-dependencies": extras}


def lay_out(name: str, into: Path) -> Path:
    """The source tree of a distribution, below `into`."""
    tree = into / name
    for path in files_of(name):
        target = tree / "src" / "kaput" / path
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(PACKAGE / path, target)
    for text in _TEXTS:
        shutil.copyfile(ROOT / text, tree / text)
    tables = {
        "build-system": {"requires": ["hatchling"], "build-backend": "hatchling.build"},
        "project": metadata(name),
        "tool.hatch.build.targets.wheel": {"packages": ["src/kaput"]},
    }
    if name == LAB:  # which has the command
        from man import man_page

        (tree / "kaput.1").write_text(man_page(), encoding="utf-8")
        tables["tool.hatch.build.targets.wheel.shared-data"] = {"kaput.1": "share/man/man1/kaput.1"}
    lines = [line for table, values in tables.items() for line in _toml(table, values)]
    (tree / "pyproject.toml").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return tree


def build(out: Path) -> list[Path]:
    """sdists and wheels of both, each wheel from its sdist; the same sources give the same bytes."""
    out.mkdir(parents=True, exist_ok=True)
    # Of the last commit, if there is one: what is built does not depend on when it is built.
    commit = subprocess.run(
        ["git", "log", "-1", "--format=%ct"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    epoch = os.environ.get("SOURCE_DATE_EPOCH") or commit.stdout.strip() or "1577836800"
    environment = {**os.environ, "SOURCE_DATE_EPOCH": epoch}
    with tempfile.TemporaryDirectory() as directory:
        for name in (LAB, ALL):
            tree = lay_out(name, Path(directory))
            if name == LAB:  # where kaput docs is
                build_site(tree / "src" / "kaput" / "site", environment)
            uv = [sys.executable, "-m", "uv", "build", "--quiet", "--no-build-isolation"]
            subprocess.run(
                [*uv, "--python", sys.executable, "--out-dir", out, tree], env=environment, check=True
            )
    (out / ".gitignore").unlink(missing_ok=True)  # uv's
    version = pyproject()["project"]["version"]
    stems = [f"{name.replace('-', '_')}-{version}" for name in (LAB, ALL)]
    return [out / f"{stem}{end}" for stem in stems for end in (".tar.gz", "-py3-none-any.whl")]


def build_site(into: Path, environment: Mapping[str, str]) -> None:
    """The documentation as pages, anew: those of a checkout may be old, or not there (make site)."""
    mkdocs = Path(sys.executable).with_name("mkdocs")
    if not mkdocs.exists():
        sys.exit("mkdocs is missing: make wheel installs it, and builds")
    environment = {**environment, "NO_MKDOCS_2_WARNING": "1"}
    subprocess.run([mkdocs, "build", "--strict", "--site-dir", into], cwd=ROOT, env=environment, check=True)


def _toml(table: str, values: Mapping[str, Any]) -> list[str]:
    """A table; JSON's strings and lists are TOML's, too."""
    plain = {key: value for key, value in values.items() if not isinstance(value, dict)}
    lines = ["", f"[{table}]", *(f"{_key(key)} = {json.dumps(value)}" for key, value in plain.items())]
    for key, value in values.items():
        if isinstance(value, dict):
            lines += _toml(f"{table}.{_key(key)}", value)
    return lines


def _key(key: str) -> str:
    return key if re.fullmatch(r"[\w-]+", key) else json.dumps(key)


if __name__ == "__main__":
    for built in build(Path(sys.argv[1])):
        print(f"{built} {built.stat().st_size / 1e6:.1f} MB")
