"""The GitHub action and the snippets of docs/CI.md: what they run in a shell works."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from kaput.scenario.builtin import builtin_text

ROOT = Path(__file__).parents[2]
ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text())


def shell(script: str, place: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """As a runner does: bash that ends at the first failure, with this kaput on its PATH."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script],
        cwd=place, env={**os.environ, "PATH": path, **variables}, capture_output=True, text=True, timeout=300,
        check=False,
    )  # fmt: skip


def block(language: str, title: str) -> str:
    """The first block of that language in a section of docs/CI.md."""
    page = (ROOT / "docs" / "CI.md").read_text().split(f"## {title}\n")[1]
    return page.split(f"```{language}\n")[1].split("```")[0]


def steps() -> dict[str, dict[str, Any]]:
    return {step["name"]: step for step in ACTION["runs"]["steps"] if "name" in step}


def test_inputs_are_what_the_steps_use() -> None:
    """Each input by some step, and by no script itself, where a value could be a command."""
    used = set(re.findall(r"inputs\.([a-z]+)", str(ACTION["runs"])))
    assert used == set(ACTION["inputs"])
    assert not [step for step in steps().values() if "${{" in step["run"]]
    given = yaml.safe_load(block("yaml", "GitHub Actions"))["jobs"]["kaput"]["steps"][-1]["with"]
    assert set(given) <= set(ACTION["inputs"])


def test_kaput_is_fetched_before_it_is_used() -> None:
    """The snippets can be copied as they are, but for the address of the repository."""
    given = yaml.safe_load(block("yaml", "GitHub Actions"))["jobs"]["kaput"]["steps"]
    assert given[-2]["with"]["path"] == "kaput" and given[-1]["uses"] == "./kaput"
    for text in (block("yaml", "GitLab"), block("groovy", "Jenkins")):
        assert 'git clone --depth 1 "$KAPUT_GIT" kaput' in text.split("pip install ./kaput")[0]


def test_downloads_of_pip_are_cached() -> None:
    """Everything that kaput depends on is a gigabyte."""
    cached = [step["with"]["path"] for step in ACTION["runs"]["steps"] if "cache" in step.get("uses", "")]
    assert "~/.cache/pip" in cached
    gitlab = yaml.safe_load(block("yaml", "GitLab"))["failover"]
    assert ".cache/pip" in gitlab["cache"]["paths"] and gitlab["variables"]["XDG_CACHE_HOME"].endswith(
        "/.cache"
    )
    assert "kaput-cache:/cache -e XDG_CACHE_HOME=/cache" in block("groovy", "Jenkins")


def test_what_is_kept_is_what_a_run_leaves() -> None:
    """The same files in the action, at GitLab and at Jenkins."""
    kept = " ".join(str(step.get("with", {}).get("path", "")) for step in ACTION["runs"]["steps"])
    for text in (kept, block("yaml", "GitLab"), block("groovy", "Jenkins")):
        assert {"junit.xml", "findings.json", "report.html"} <= set(re.findall(r"\*/([a-z.]+)", text))


@pytest.mark.long
def test_the_pipelines_run(tmp_path: Path) -> None:
    """The action without a baseline, then all of them against what it has left."""
    (tmp_path / "failover").mkdir()
    (tmp_path / "failover" / "my-scenario.yaml").write_text(builtin_text("noop"))
    summary, output = tmp_path / "summary.md", tmp_path / "output"
    variables = {
        "SCENARIOS": "failover/my-scenario.yaml",
        "OPTIONS": "--set workload.producers.0.messages=10000",
        "BASELINE": "",
        "GITHUB_OUTPUT": str(output),
        "GITHUB_STEP_SUMMARY": str(summary),
    }
    done = shell(steps()["Run"]["run"], tmp_path, **variables)
    assert done.returncode == 0, done.stderr
    assert output.read_text() == "status=0\n" and summary.read_text().startswith("### HELD")
    (findings,) = tmp_path.glob("kaput-runs/*/findings.json")
    shutil.copy(findings, tmp_path / "failover" / "baseline.json")
    gitlab = yaml.safe_load(block("yaml", "GitLab"))["failover"]["script"]
    jenkins = re.findall(r"sh '(kaput .*)'", block("groovy", "Jenkins"))
    assert gitlab == jenkins and len(gitlab) == 1
    done = shell(gitlab[0] + " --tolerance 1000%", tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "  ack-p99-ms: " in done.stdout and len(list(tmp_path.glob("runs/*/junit.xml"))) == 1


def test_a_violation_fails_the_step_after_its_summary(tmp_path: Path) -> None:
    """A mistake, too: the status of kaput is that of the step, and an output."""
    output = tmp_path / "output"
    done = shell(
        steps()["Run"]["run"], tmp_path, SCENARIOS="no-such", OPTIONS="", BASELINE="",
        GITHUB_OUTPUT=str(output), GITHUB_STEP_SUMMARY=str(tmp_path / "summary.md"),
    )  # fmt: skip
    assert (done.returncode, output.read_text()) == (2, "status=2\n")
