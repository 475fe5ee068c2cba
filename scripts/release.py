"""A release: checked, built twice, with its notes and its SBOM, and tagged. A dry run unless --tag is given.

    .venv/bin/python scripts/release.py          everything but the tag; dist/release has the result
    .venv/bin/python scripts/release.py --tag    also the tag vX.Y.Z, here

Nothing is uploaded from here: the pushed tag starts .github/workflows/release.yml, which runs this again and
publishes what it built. Exit status 1 if something is not ready, after naming all of it.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from distributions import ROOT, build, pyproject

SBOM_TOOL = "cyclonedx-bom==7.5.0"
UNTIL_RELEASED = {
    "OWNER/kaput": "say where the repository is (CONTRIBUTING.md)",
    "not on PyPI yet": "say how to install what is released",
}
_JARS = {"ivy": "org.apache.ivy", "commons-cli": "commons-cli"}  # group ids of what kaput-lab contains


def main(tag: bool, out: Path = ROOT / "dist" / "release") -> int:
    """Builds into `out`, replacing it. Returns the exit status."""
    version = pyproject()["project"]["version"]
    problems = not_ready(version)
    shutil.rmtree(out, ignore_errors=True)
    packages = build(out / "packages")
    with tempfile.TemporaryDirectory() as again:
        problems += differences(packages, build(Path(again)))
    (out / "notes.md").write_text(notes(version), encoding="utf-8")
    (out / "sbom.cdx.json").write_text(json.dumps(sbom(packages), indent=1) + "\n", encoding="utf-8")
    for path in sorted(path for path in out.rglob("*") if path.is_file()):
        print(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.relative_to(out)}")
    for problem in problems:
        print(f"not ready: {problem}", file=sys.stderr)
    if problems:
        return 1
    if tag:
        _git("tag", "--annotate", f"v{version}", "--cleanup=verbatim", f"--file={out / 'notes.md'}")
        print(f"tagged v{version}; to publish: git push origin v{version}")
    else:
        print(f"ready: --tag would tag {_git('rev-parse', '--short', 'HEAD')} as v{version}")
    return 0


def not_ready(version: str) -> list[str]:
    """Why this commit cannot be released, in sentences."""
    found = []
    if changed := _git("status", "--porcelain"):
        found.append(f"there are uncommitted changes: {changed.splitlines()[0].strip()}")
    tagged = _git("tag", "--list", f"v{version}")
    if tagged and _git("rev-parse", f"v{version}^{{commit}}") != _git("rev-parse", "HEAD"):
        found.append(f"v{version} is the tag of another commit: raise the version in pyproject.toml")
    core = (ROOT / "src" / "kaput" / "core.py").read_text(encoding="utf-8")
    if f'VERSION = "{version}"' not in core:
        found.append(f"src/kaput/core.py does not have version {version}")
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    if not re.search(rf"^## \[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d$", changelog, re.MULTILINE):
        found.append(f"CHANGELOG.md has no line `## [{version}] - YYYY-MM-DD`")
    unreleased = re.search(r"^## \[Unreleased\]\n(.*?)(?=^## )", changelog, re.MULTILINE | re.DOTALL)
    if unreleased and unreleased[1].strip():
        found.append(f"CHANGELOG.md has entries under Unreleased: move them to {version}")
    texts = {path: path.read_text(encoding="utf-8") for path in (*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"))}
    for words, what in UNTIL_RELEASED.items():
        if pages := [
            path.name for path, text in texts.items() if words in text and path.name != "CONTRIBUTING.md"
        ]:
            found.append(f"{words!r} is in {', '.join(sorted(pages))}: {what}")
    return found


def notes(version: str) -> str:
    """The version's section of the changelog. Raises SystemExit if there is none."""
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    section = re.search(rf"^## \[{re.escape(version)}\][^\n]*\n(.*?)(?=^## |\Z)", changelog, re.M | re.S)
    if section is None or not section[1].strip():
        raise SystemExit(f"CHANGELOG.md has nothing about {version}")
    return section[1].strip() + "\n"


def differences(packages: list[Path], again: list[Path]) -> list[str]:
    """What two builds do not have in common."""
    pairs = zip(packages, again, strict=True)
    return [f"{a.name} differs between two builds" for a, b in pairs if a.read_bytes() != b.read_bytes()]


def sbom(packages: list[Path]) -> dict[str, Any]:
    """CycloneDX: what `pip install kaput` installs today, with licenses, and the jars within kaput-lab."""
    with tempfile.TemporaryDirectory() as directory:
        python = Path(directory) / "bin" / "python"
        uv("venv", "--python", sys.executable, directory)
        wheels = [str(path) for path in packages if path.suffix == ".whl"]
        uv("pip", "install", "--python", str(python), *wheels)
        tool = ["tool", "run", "--from", SBOM_TOOL, "cyclonedx-py", "environment", "--output-reproducible"]
        document: dict[str, Any] = json.loads(uv(*tool, "--output-format", "JSON", str(python)))
    (lab,) = (path for path in packages if path.name.startswith("kaput_lab") and path.suffix == ".whl")
    with zipfile.ZipFile(lab) as opened:
        jars = {name: opened.read(name) for name in opened.namelist() if name.endswith(".jar")}
    document["components"] += [_jar(Path(name).stem, content) for name, content in jars.items()]
    return document


def _jar(stem: str, content: bytes) -> dict[str, Any]:
    name, version = stem.rsplit("-", 1)
    purl = f"pkg:maven/{_JARS[name]}/{name}@{version}"
    return {
        "type": "library", "bom-ref": purl, "purl": purl,
        "group": _JARS[name], "name": name, "version": version,
        "licenses": [{"license": {"id": "Apache-2.0"}}],
        "hashes": [{"alg": "SHA-256", "content": hashlib.sha256(content).hexdigest()}],
    }  # fmt: skip


def uv(*arguments: str) -> str:
    """Runs uv. Returns its output; raises CalledProcessError."""
    return _output(sys.executable, "-m", "uv", "--quiet", *arguments)


def _git(*arguments: str) -> str:
    return _output("git", *arguments).strip()


def _output(*command: str) -> str:
    return subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout


if __name__ == "__main__":
    if sys.argv[1:] not in ([], ["--tag"]):
        sys.exit(__doc__)
    sys.exit(main("--tag" in sys.argv))
