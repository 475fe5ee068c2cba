"""scripts/release.py: what it refuses, and the notes that it takes; the workflow that publishes."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import distributions  # noqa: E402
import release  # noqa: E402

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
ACTIONLINT = "github.com/rhysd/actionlint/cmd/actionlint@v1.7.12"
CHANGELOG = """\
# Changelog

## [Unreleased]

## [1.2.3] - 2026-12-01

### Added

- A fault.

## [1.2.2] - 2026-11-01

- Older.
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A committed project of version 1.2.3."""
    (tmp_path / "src" / "kaput").mkdir(parents=True)
    (tmp_path / "src" / "kaput" / "core.py").write_text('VERSION = "1.2.3"\n')
    (tmp_path / "CHANGELOG.md").write_text(CHANGELOG)
    monkeypatch.setattr(release, "ROOT", tmp_path)
    for command in ("init", "add .", "commit"):
        git(tmp_path, *command.split(), *(["-m", "all"] if command == "commit" else []))
    return tmp_path


def git(project: Path, *arguments: str) -> None:
    """As nobody in particular."""
    who = ["-c", "user.name=x", "-c", "user.email=x@example.org"]
    subprocess.run(["git", *who, *arguments], cwd=project, check=True, capture_output=True)


def test_a_committed_version_with_a_dated_section_is_ready(project: Path) -> None:
    """Also when it is tagged already: the workflow runs on the tag."""
    assert release.not_ready("1.2.3") == []
    git(project, "tag", "v1.2.3")
    assert release.not_ready("1.2.3") == []
    assert release.notes("1.2.3") == "### Added\n\n- A fault.\n"


def test_everything_that_is_not_ready_is_named(project: Path) -> None:
    """All at once."""
    git(project, "tag", "v1.2.4")
    text = CHANGELOG.replace("## [Unreleased]\n", "## [Unreleased]\n\n- New.\n")
    (project / "CHANGELOG.md").write_text(text)
    git(project, "commit", "-am", "more")
    (project / "docs").mkdir()
    (project / "docs" / "CI.md").write_text("uses: OWNER/kaput@REF")
    (project / "README.md").write_text("kaput is not on PyPI yet.")
    problems = release.not_ready("1.2.4")
    assert [re.sub(r":.*", "", problem) for problem in problems] == [
        "there are uncommitted changes",
        "v1.2.4 is the tag of another commit",
        "src/kaput/core.py does not have version 1.2.4",
        "CHANGELOG.md has no line `## [1.2.4] - YYYY-MM-DD`",
        "CHANGELOG.md has entries under Unreleased",
        "'OWNER/kaput' is in CI.md",
        "'not on PyPI yet' is in README.md",
    ]


def test_one_command_says_where_the_repository_is(tmp_path: Path) -> None:
    """That of CONTRIBUTING, and it reaches each placeholder that there is, or was before it was run."""
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    (command,) = re.findall(r"^ +(grep -rl OWNER/kaput .*)$", page, flags=re.MULTILINE)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "A.md").write_text("git clone https://git.example.com/OWNER/kaput.git")
    pages = [ROOT / "README.md", *ROOT.glob("docs/*.md")]
    copies = [Path(shutil.copy(each, tmp_path / each.relative_to(ROOT))) for each in pages]
    subprocess.run(command, shell=True, cwd=tmp_path, check=True)
    assert [page.name for page in copies if "OWNER/kaput" in page.read_text(encoding="utf-8")] == []
    assert (tmp_path / "docs" / "A.md").read_text() == "git clone https://HOST/NAME/kaput.git"


def test_a_version_without_a_section_has_no_notes(project: Path) -> None:
    """It ends the release."""
    with pytest.raises(SystemExit, match="nothing about 9"):
        release.notes("9.0.0")


def test_the_changelog_here_has_the_form_that_the_script_reads() -> None:
    """Sections by version, and notes for the current one."""
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    heads = re.findall(r"^## (.*)$", text, flags=re.MULTILINE)
    assert heads[0] == "[Unreleased]"
    assert all(
        re.fullmatch(r"\[\d+\.\d+\.\d+\] - (\d{4}-\d\d-\d\d|not released yet)", head) for head in heads[1:]
    )
    assert len(release.notes(distributions.pyproject()["project"]["version"])) > 1000


def test_two_builds_that_differ_are_named(tmp_path: Path) -> None:
    """By their file."""
    one, other = tmp_path / "a.whl", tmp_path / "b.whl"
    one.write_bytes(b"1")
    other.write_bytes(b"2")
    assert release.differences([one], [other]) == ["a.whl differs between two builds"]
    assert release.differences([one], [one]) == []


def test_only_the_job_that_publishes_may_prove_who_it_is() -> None:
    """Trusted publishing: no password, and no token where something is built or tested."""
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text())["jobs"]
    assert [name for name, job in jobs.items() if "id-token" in job.get("permissions", {})] == ["publish"]
    assert jobs["publish"]["needs"] == "build" and jobs["build"]["needs"] == "test"


@pytest.mark.long
@pytest.mark.skipif(shutil.which("go") is None, reason="no Go here, in which actionlint is written")
def test_workflows_pass_actionlint(tmp_path: Path) -> None:
    """Syntax, expressions, and what each action takes: ours, too, as docs/CI.md uses it."""
    workflow = tmp_path / ".github" / "workflows" / "failover.yml"
    workflow.parent.mkdir(parents=True)
    workflow.write_text((ROOT / "docs" / "CI.md").read_text().split("```yaml\n")[1].split("```")[0])
    (tmp_path / "kaput").mkdir()
    shutil.copy(ROOT / "action.yml", tmp_path / "kaput")
    git(tmp_path, "init")
    done = _actionlint(tmp_path, *WORKFLOWS, workflow)
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr
    workflow.write_text(workflow.read_text().replace("scenarios:", "scenario:"))
    assert 'input "scenario" is not defined in action "kaput"' in _actionlint(tmp_path, workflow).stdout


def _actionlint(project: Path, *workflows: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["go", "run", ACTIONLINT, "-no-color", *map(str, workflows)],
        cwd=project, capture_output=True, text=True, check=False, timeout=900,
    )  # fmt: skip
